// The Java client, driven by a test: a request in JSON on each line of standard input, its answer on standard output.
// ../agents.py says what is asked; admin requests are in AdminCalls.java. Texts are bytes as ISO 8859-1.

import com.google.gson.*;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.*;

public class Agent {
  static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
  static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();
  static final Map<String, KafkaConsumer<byte[], byte[]>> CONSUMERS = new HashMap<>();

  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    System.setOut(System.err);
    for (String line; (line = in.readLine()) != null; ) {
      Map<String, Object> answer = new LinkedHashMap<>();
      try {
        answer.put("ok", handle(JsonParser.parseString(line).getAsJsonObject()));
      } catch (Throwable error) {
        answer = failure(error);
      }
      out.println(GSON.toJson(answer));
    }
    System.exit(0);
  }

  static Map<String, Object> failure(Throwable error) {
    while ((error instanceof ExecutionException || error instanceof CompletionException) && error.getCause() != null) error = error.getCause();
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("error", error.getClass().getSimpleName());
    answer.put("code", (int) Errors.forException(error).code());
    answer.put("message", String.valueOf(error.getMessage()));
    return answer;
  }

  static Object handle(JsonObject ask) throws Exception {
    String id = text(ask, "id");
    KafkaProducer<byte[], byte[]> producer = PRODUCERS.get(id);
    KafkaConsumer<byte[], byte[]> consumer = CONSUMERS.get(id);
    switch (ask.get("op").getAsString()) {
      case "producer": PRODUCERS.put(id, new KafkaProducer<>(producing(ask), new ByteArraySerializer(), new ByteArraySerializer())); return null;
      case "init": producer.initTransactions(); return null;
      case "begin": producer.beginTransaction(); return null;
      case "commit_txn": producer.commitTransaction(); return null;
      case "abort_txn": producer.abortTransaction(); return null;
      case "send": return send(producer, ask);
      case "close_producer": PRODUCERS.remove(id).close(Duration.ofSeconds(10)); return null;
      case "consumer": CONSUMERS.put(id, consuming(ask)); return null;
      case "poll": return poll(consumer, ask);
      case "assignment": return pairs(consumer.assignment());
      case "commit": consumer.commitSync(Duration.ofSeconds(15)); return null;
      case "committed": return committed(consumer, ask);
      case "close_consumer": CONSUMERS.remove(id).close(Duration.ofSeconds(10)); return null;
      case "transform": return transform(ask);
      case "versions": return Map.of("client", org.apache.kafka.common.utils.AppInfoParser.getVersion());
      default: return AdminCalls.handle(ask);
    }
  }

  static Properties base(JsonObject ask) {
    Properties found = new Properties();
    found.put("bootstrap.servers", text(ask, "bootstrap"));
    return found;
  }

  static Properties extras(Properties found, JsonObject ask) {
    if (ask.has("java")) ask.getAsJsonObject("java").entrySet().forEach(it -> found.put(it.getKey(), it.getValue().getAsString()));
    return found;
  }

  static Properties producing(JsonObject ask) {
    Properties found = base(ask);
    put(found, "acks", ask, "acks");
    put(found, "compression.type", ask, "codec");
    put(found, "enable.idempotence", ask, "idempotent");
    put(found, "transactional.id", ask, "transactional_id");
    put(found, "transaction.timeout.ms", ask, "transaction_timeout_ms");
    put(found, "linger.ms", ask, "linger_ms");
    put(found, "delivery.timeout.ms", ask, "delivery_timeout_ms");
    put(found, "request.timeout.ms", ask, "request_timeout_ms");
    found.put("max.request.size", "30000000");
    found.put("max.block.ms", "30000");
    return extras(found, ask);
  }

  static KafkaConsumer<byte[], byte[]> consuming(JsonObject ask) {
    Properties found = base(ask);
    put(found, "group.id", ask, "group");
    put(found, "group.instance.id", ask, "instance");
    put(found, "session.timeout.ms", ask, "session_ms");
    put(found, "isolation.level", ask, "isolation");
    put(found, "fetch.max.wait.ms", ask, "fetch_wait_ms");
    found.put("heartbeat.interval.ms", "500");
    found.put("auto.offset.reset", "earliest");
    found.put("enable.auto.commit", "false");
    if ("cooperative".equals(text(ask, "strategy"))) found.put("partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
    KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(extras(found, ask), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    if (ask.has("topics")) {
      consumer.subscribe(strings(ask.get("topics")));
    } else if (ask.has("assign")) {
      List<TopicPartition> assigned = partitions(ask.get("assign"));
      consumer.assign(assigned);
      if ("latest".equals(text(ask, "from"))) consumer.seekToEnd(assigned); else consumer.seekToBeginning(assigned);
      assigned.forEach(consumer::position);
    }
    return consumer;
  }

  static Object send(KafkaProducer<byte[], byte[]> producer, JsonObject ask) {
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    List<Object> found = new ArrayList<>();
    for (JsonElement it : ask.getAsJsonArray("records")) {
      JsonObject record = it.getAsJsonObject();
      ProducerRecord<byte[], byte[]> made = new ProducerRecord<>(text(ask, "topic"), number(record, "partition"),
          record.has("timestamp") && !record.get("timestamp").isJsonNull() ? (Long) record.get("timestamp").getAsLong() : null, bytes(record, "key"), bytes(record, "value"));
      if (record.has("headers")) for (JsonElement header : record.getAsJsonArray("headers")) {
        JsonArray pair = header.getAsJsonArray();
        made.headers().add(pair.get(0).getAsString(), pair.get(1).isJsonNull() ? null : pair.get(1).getAsString().getBytes(StandardCharsets.ISO_8859_1));
      }
      try { sent.add(producer.send(made)); } catch (RuntimeException error) { sent.add(CompletableFuture.failedFuture(error)); }
    }
    if (ask.has("wait") && !ask.get("wait").getAsBoolean()) return null;
    producer.flush();
    for (Future<RecordMetadata> it : sent) {
      try {
        RecordMetadata stored = it.get(60, TimeUnit.SECONDS);
        found.add(Arrays.asList(stored.partition(), stored.hasOffset() ? stored.offset() : -1, stored.timestamp()));
      } catch (Exception error) {
        found.add(failure(error));
      }
    }
    return found;
  }

  static Object poll(KafkaConsumer<byte[], byte[]> consumer, JsonObject ask) {
    int count = ask.get("count").getAsInt();
    long end = System.nanoTime() + ask.get("ms").getAsLong() * 1_000_000;
    List<Object> found = new ArrayList<>();
    do {
      long left = Math.max(0, (end - System.nanoTime()) / 1_000_000);
      for (ConsumerRecord<byte[], byte[]> it : consumer.poll(Duration.ofMillis(Math.min(left, 100)))) found.add(shown(it));
    } while (found.size() < count && System.nanoTime() < end);
    return found;
  }

  static Object shown(ConsumerRecord<byte[], byte[]> it) {
    List<Object> headers = new ArrayList<>();
    for (Header header : it.headers()) headers.add(Arrays.asList(header.key(), latin(header.value())));
    return Arrays.asList(it.topic(), it.partition(), it.offset(), it.timestamp(), latin(it.key()), latin(it.value()), headers);
  }

  static Object committed(KafkaConsumer<byte[], byte[]> consumer, JsonObject ask) {
    List<TopicPartition> asked = partitions(ask.get("partitions"));
    Map<TopicPartition, OffsetAndMetadata> found = consumer.committed(new HashSet<>(asked), Duration.ofSeconds(15));
    List<Object> answer = new ArrayList<>();
    for (TopicPartition it : asked) answer.add(found.get(it) == null ? -1 : found.get(it).offset());
    return answer;
  }

  /** Reads a topic in a group and writes each record to another, a transaction for each poll; aborts those named. */
  static Object transform(JsonObject ask) throws Exception {
    Set<Integer> aborted = new HashSet<>();
    ask.getAsJsonArray("abort").forEach(it -> aborted.add(it.getAsInt()));
    int count = ask.get("count").getAsInt(), transactions = 0, done = 0;
    ask.addProperty("isolation", "read_committed");
    ask.add("topics", GSON.toJsonTree(List.of(text(ask, "source"))));
    JsonObject java = new JsonObject();
    java.addProperty("max.poll.records", "10");
    ask.add("java", java);
    long end = System.nanoTime() + 60_000_000_000L;
    try (KafkaConsumer<byte[], byte[]> consumer = consuming(ask)) {
      ask.remove("java");
      try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(producing(ask), new ByteArraySerializer(), new ByteArraySerializer())) {
        producer.initTransactions();
        while (done < count && System.nanoTime() < end) {
          ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
          if (records.isEmpty()) continue;
          producer.beginTransaction();
          for (ConsumerRecord<byte[], byte[]> it : records) producer.send(new ProducerRecord<>(text(ask, "target"), it.partition(), it.key(), it.value()));
          Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
          for (TopicPartition it : records.partitions()) next.put(it, new OffsetAndMetadata(records.records(it).get(records.records(it).size() - 1).offset() + 1));
          producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
          if (aborted.contains(transactions++)) {
            producer.abortTransaction();
            for (TopicPartition it : records.partitions()) consumer.seek(it, records.records(it).get(0).offset());
          } else {
            producer.commitTransaction();
            done += records.count();
          }
        }
      }
    }
    return Arrays.asList(done, transactions);
  }

  static void put(Properties into, String name, JsonObject ask, String field) {
    if (text(ask, field) != null) into.put(name, text(ask, field));
  }

  static String text(JsonObject it, String field) {
    return it.has(field) && !it.get(field).isJsonNull() ? it.get(field).getAsString() : null;
  }

  static Integer number(JsonObject it, String field) {
    return it.has(field) && !it.get(field).isJsonNull() ? (Integer) it.get(field).getAsInt() : null;
  }

  static byte[] bytes(JsonObject it, String field) {
    return text(it, field) == null ? null : text(it, field).getBytes(StandardCharsets.ISO_8859_1);
  }

  static String latin(byte[] it) {
    return it == null ? null : new String(it, StandardCharsets.ISO_8859_1);
  }

  static List<String> strings(JsonElement it) {
    List<String> found = new ArrayList<>();
    it.getAsJsonArray().forEach(name -> found.add(name.getAsString()));
    return found;
  }

  static List<TopicPartition> partitions(JsonElement it) {
    List<TopicPartition> found = new ArrayList<>();
    it.getAsJsonArray().forEach(pair -> found.add(new TopicPartition(pair.getAsJsonArray().get(0).getAsString(), pair.getAsJsonArray().get(1).getAsInt())));
    return found;
  }

  static List<Object> pairs(Collection<TopicPartition> partitions) {
    List<Object> found = new ArrayList<>();
    for (TopicPartition it : partitions) found.add(Arrays.asList(it.topic(), it.partition()));
    return found;
  }
}
