// kafkajs, driven by a test: a request in JSON on each line of standard input, its answer on standard output.
// ../agents.py says what is asked. Texts are bytes as ISO 8859-1. What is asked of its admin client is answered as by the Java agent.
'use strict';

const readline = require('node:readline');
const { AssignerProtocol, CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs');

// The one codec that comes as a package without native code; gzip is built in.
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy');

const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy };

const bytes = text => (text === undefined || text === null ? null : Buffer.from(text, 'latin1'));
const text = data => (data === undefined || data === null ? null : Buffer.from(data).toString('latin1'));

let client, admin;
const producers = new Map();
const consumers = new Map();

/** kafkajs of these brokers; what it logs goes to standard error. */
function kafka(ask) {
  client ??= new Kafka({
    clientId: 'kafkajs', brokers: ask.bootstrap.split(','), logLevel: logLevel.WARN, retry: { initialRetryTime: 50, retries: 10 },
    logCreator: () => ({ namespace, log }) => console.error(namespace, log.message, log.error ?? ''),
  });
  return client;
}

async function administrator(ask) {
  if (!admin) {
    admin = kafka(ask).admin();
    await admin.connect();
  }
  return admin;
}

/** The number of an error in the protocol, or -1. */
function code(error) {
  for (let it = error; it; it = it.cause ?? it.errors?.[0]) if (typeof it.code === 'number') return it.code;
  return -1;
}

/** A producer. Its transactions are objects, of which it has one at a time. */
class Producing {
  constructor(ask) {
    this.acks = { 0: 0, 1: 1, all: -1 }[ask.acks ?? 'all'];
    this.compression = CODECS[ask.codec ?? 'none'];
    this.producer = kafka(ask).producer({
      transactionalId: ask.transactional_id, idempotent: ask.idempotent ?? this.acks === -1, maxInFlightRequests: 1, transactionTimeout: ask.transaction_timeout_ms,
      createPartitioner: () => ({ message }) => message.partition,
    });
  }

  async begin() {
    this.transaction = await this.producer.transaction();
  }

  async send(ask) {
    const messages = ask.records.map(it => ({
      partition: it.partition, key: bytes(it.key), value: bytes(it.value), timestamp: it.timestamp === null ? undefined : `${it.timestamp}`,
      headers: Object.fromEntries((it.headers ?? []).map(([name, value]) => [name, bytes(value)])),
    }));
    const stored = await (this.transaction ?? this.producer).send({ topic: ask.topic, acks: this.acks, compression: this.compression, messages });
    // It tells the offset of the first record of each partition.
    const next = new Map(stored.map(it => [it.partition, Number(it.baseOffset)]));
    return ask.records.map(it => {
      const offset = next.get(it.partition);
      next.set(it.partition, offset + 1);
      return [it.partition, offset, it.timestamp ?? -1];
    });
  }

  async end(how) {
    const transaction = this.transaction;
    this.transaction = undefined;
    await transaction[how]();
  }
}

/** A member of a group. What it is given is kept until it is asked for. */
class Consuming {
  constructor(ask) {
    this.group = ask.group;
    this.given = [];
    this.assigned = [];
    this.next = new Map();
    this.wake = () => {};
    this.consumer = kafka(ask).consumer({
      groupId: ask.group, sessionTimeout: ask.session_ms ?? 10000, heartbeatInterval: 500, maxWaitTimeInMs: ask.fetch_wait_ms ?? 100,
      readUncommitted: ask.isolation !== 'read_committed',
    });
    this.consumer.on('consumer.group_join', ({ payload }) => {
      this.assigned = Object.entries(payload.memberAssignment).flatMap(([topic, partitions]) => partitions.map(it => [topic, it]));
    });
    this.consumer.on('consumer.rebalancing', () => (this.assigned = []));
  }

  async start(ask) {
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: ask.topics, fromBeginning: true });
    const eachMessage = async ({ topic, partition, message }) => {
      const headers = Object.entries(message.headers ?? {}).flatMap(([name, values]) => [values].flat().map(it => [name, text(it)]));
      this.given.push([topic, partition, Number(message.offset), Number(message.timestamp), text(message.key), text(message.value), headers]);
      this.wake();
    };
    await this.consumer.run({ autoCommit: false, eachMessage });
  }

  async poll({ count, ms }) {
    const end = Date.now() + ms;
    while (this.given.length < count && Date.now() < end) {
      await new Promise(done => {
        const late = setTimeout(done, end - Date.now());
        this.wake = () => (clearTimeout(late), done());
      });
    }
    const found = this.given.splice(0, count);
    for (const [topic, partition, offset] of found) this.next.set(`${partition} ${topic}`, { topic, partition, offset: `${offset + 1}` });
    return found;
  }

  offsets() {
    return [...this.next.values()].filter(it => this.assigned.some(([topic, partition]) => topic === it.topic && partition === it.partition));
  }
}

async function committed(ask, group) {
  const offsets = await (await administrator(ask)).fetchOffsets({ groupId: group, topics: [...new Set(ask.partitions.map(([topic]) => topic))] });
  return ask.partitions.map(([topic, partition]) => {
    const found = offsets.find(it => it.topic === topic)?.partitions.find(it => it.partition === partition);
    return Number(found?.offset ?? -1);
  });
}

async function administer(ask) {
  const admin = await administrator(ask);
  const { topic } = ask;
  switch (ask.op) {
    case 'create_topic': {
      const configEntries = Object.entries(ask.config ?? {}).map(([name, value]) => ({ name, value }));
      return admin.createTopics({ topics: [{ topic, numPartitions: ask.partitions, replicationFactor: 1, configEntries }] });
    }
    case 'delete_topic': return admin.deleteTopics({ topics: [topic] });
    case 'topics': return admin.listTopics();
    case 'describe_topic': {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
      const partitions = topics[0].partitions.map(it => [it.partitionId, it.leader, it.replicas.length, it.isr.length]);
      return { partitions: partitions.sort(([a], [b]) => a - b) };
    }
    case 'create_partitions': return admin.createPartitions({ topicPartitions: [{ topic, count: ask.count }] });
    case 'describe_configs': {
      const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }] });
      return Object.fromEntries(resources[0].configEntries.map(it => [it.configName, it.configValue]));
    }
    case 'alter_configs': {
      const configEntries = Object.entries(ask.config).map(([name, value]) => ({ name, value }));
      return admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] });
    }
    case 'list_offset': {
      const ends = ask.spec === 'earliest' || ask.spec === 'latest';
      const found = ends ? await admin.fetchTopicOffsets(topic) : await admin.fetchTopicOffsetsByTimestamp(topic, Number(ask.spec));
      const { offset, low } = found.find(it => it.partition === ask.partition);
      return Number(ask.spec === 'earliest' ? low : offset);
    }
    case 'describe_group': {
      const group = (await admin.describeGroups([ask.name])).groups[0];
      const members = group.members.map(({ memberAssignment }) => AssignerProtocol.MemberAssignment.decode(memberAssignment).assignment);
      return { state: group.state, members };
    }
    case 'delete_group': return admin.deleteGroups([ask.name]);
    default: throw new Error(`no such request: ${ask.op}`);
  }
}

async function handle(ask) {
  const producing = producers.get(ask.id);
  const consuming = consumers.get(ask.id);
  switch (ask.op) {
    case 'producer': {
      const made = new Producing(ask);
      await made.producer.connect();
      producers.set(ask.id, made);
      return null;
    }
    // It asks for its epoch when its first transaction begins.
    case 'init': return null;
    case 'begin': return producing.begin();
    case 'send': return producing.send(ask);
    case 'send_offsets': {
      const topics = ask.offsets.map(([topic, partition, offset]) => ({ topic, partitions: [{ partition, offset: `${offset}` }] }));
      return producing.transaction.sendOffsets({ consumerGroupId: ask.group, topics });
    }
    case 'commit_txn': return producing.end('commit');
    case 'abort_txn': return producing.end('abort');
    case 'close_producer': producers.delete(ask.id); return producing.producer.disconnect();
    case 'consumer': {
      const made = new Consuming(ask);
      await made.start(ask);
      consumers.set(ask.id, made);
      return null;
    }
    case 'poll': return consuming.poll(ask);
    case 'assignment': return consuming.assigned;
    case 'commit': return consuming.consumer.commitOffsets(consuming.offsets());
    case 'committed': return committed(ask, ask.group ?? consuming.group);
    case 'close_consumer': consumers.delete(ask.id); return consuming.consumer.disconnect();
    case 'versions': return { kafkajs: require('kafkajs/package.json').version };
    default: return administer(ask);
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let answer;
    try {
      answer = { ok: (await handle(JSON.parse(line))) ?? null };
    } catch (error) {
      answer = { error: error.name, code: code(error), message: `${error.message}` };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  process.exit(0);
}

main();
