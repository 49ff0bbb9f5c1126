// Requests of the Java admin client: it has the most of them, and speaks their newest versions.

import com.google.gson.*;
import java.util.*;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;

class AdminCalls {
  static Object handle(JsonObject ask) throws Exception {
    Properties base = Agent.base(ask);
    base.put("default.api.timeout.ms", "20000");
    base.put("request.timeout.ms", "10000");
    try (Admin admin = Admin.create(base)) {
      return call(admin, ask);
    }
  }

  static <T> T get(KafkaFuture<T> future) throws Exception {
    return future.get(25, TimeUnit.SECONDS);
  }

  static Object call(Admin admin, JsonObject ask) throws Exception {
    String topic = Agent.text(ask, "topic"), name = Agent.text(ask, "name");
    Map<String, Object> found = new TreeMap<>();
    switch (ask.get("op").getAsString()) {
      case "create_topic": {
        NewTopic made = new NewTopic(topic, ask.get("partitions").getAsInt(), (short) 1);
        Map<String, String> configs = new HashMap<>();
        if (ask.has("config")) ask.getAsJsonObject("config").entrySet().forEach(it -> configs.put(it.getKey(), it.getValue().getAsString()));
        CreateTopicsResult result = admin.createTopics(List.of(made.configs(configs)));
        get(result.all());
        found.put("partitions", get(result.numPartitions(topic)));
        found.put("replicas", get(result.replicationFactor(topic)));
        found.put("id", get(result.topicId(topic)).toString());
        return found;
      }
      case "delete_topic": get(admin.deleteTopics(List.of(topic)).all()); return null;
      case "delete_topic_by_id": get(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(Uuid.fromString(Agent.text(ask, "topic_id"))))).all()); return null;
      case "topics": return get(admin.listTopics().names());
      case "describe_topic": {
        TopicDescription it = get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
        found.put("id", it.topicId().toString());
        found.put("partitions", it.partitions().stream().map(p -> Arrays.asList(p.partition(), p.leader().id(), p.replicas().size(), p.isr().size())).collect(Collectors.toList()));
        return found;
      }
      case "create_partitions": get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(ask.get("count").getAsInt()))).all()); return null;
      case "describe_configs": {
        ConfigResource resource = resource(ask);
        for (ConfigEntry it : get(admin.describeConfigs(List.of(resource)).all()).get(resource).entries()) found.put(it.name(), Arrays.asList(it.value(), it.source().name(), it.isReadOnly()));
        return found;
      }
      case "alter_configs": {
        List<AlterConfigOp> changes = new ArrayList<>();
        for (JsonElement it : ask.getAsJsonArray("changes")) {
          JsonArray change = it.getAsJsonArray();
          String value = change.size() > 2 ? change.get(2).getAsString() : null;
          changes.add(new AlterConfigOp(new ConfigEntry(change.get(1).getAsString(), value), AlterConfigOp.OpType.valueOf(change.get(0).getAsString())));
        }
        get(admin.incrementalAlterConfigs(Map.of(resource(ask), changes)).all());
        return null;
      }
      case "cluster": {
        DescribeClusterResult it = admin.describeCluster();
        found.put("id", get(it.clusterId()));
        found.put("controller", get(it.controller()).id());
        found.put("nodes", get(it.nodes()).stream().map(n -> Arrays.asList(n.id(), n.host(), n.port())).collect(Collectors.toList()));
        return found;
      }
      case "log_dirs": {
        int node = get(admin.describeCluster().nodes()).iterator().next().id();
        for (Map.Entry<String, LogDirDescription> dir : get(admin.describeLogDirs(List.of(node)).allDescriptions()).get(node).entrySet()) {
          if (dir.getValue().error() != null) throw dir.getValue().error();
          dir.getValue().replicaInfos().forEach((partition, it) -> found.put(partition.toString(), it.size()));
        }
        return found;
      }
      case "list_offset": {
        String spec = Agent.text(ask, "spec");
        OffsetSpec asked = switch (spec) {
          case "earliest" -> OffsetSpec.earliest();
          case "latest" -> OffsetSpec.latest();
          case "max_timestamp" -> OffsetSpec.maxTimestamp();
          default -> OffsetSpec.forTimestamp(Long.parseLong(spec));
        };
        TopicPartition partition = new TopicPartition(topic, ask.get("partition").getAsInt());
        IsolationLevel isolation = "read_committed".equals(Agent.text(ask, "isolation")) ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
        ListOffsetsResult.ListOffsetsResultInfo it = get(admin.listOffsets(Map.of(partition, asked), new ListOffsetsOptions(isolation)).partitionResult(partition));
        return Arrays.asList(it.offset(), it.timestamp());
      }
      case "delete_records": {
        TopicPartition partition = new TopicPartition(topic, ask.get("partition").getAsInt());
        return get(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(ask.get("offset").getAsLong()))).lowWatermarks().get(partition)).lowWatermark();
      }
      case "groups": get(admin.listGroups().all()).forEach(it -> found.put(it.groupId(), it.groupState().map(Object::toString).orElse(""))); return found;
      case "describe_group": {
        ConsumerGroupDescription it = get(admin.describeConsumerGroups(List.of(name)).all()).get(name);
        found.put("state", it.groupState().toString());
        found.put("assignor", it.partitionAssignor());
        found.put("members", it.members().stream().map(m -> Arrays.asList(m.clientId(), m.groupInstanceId().orElse(null), Agent.pairs(m.assignment().topicPartitions()))).collect(Collectors.toList()));
        return found;
      }
      case "group_offsets": get(admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata()).forEach((partition, it) -> found.put(partition.toString(), it == null ? -1 : it.offset())); return found;
      case "delete_group": get(admin.deleteConsumerGroups(List.of(name)).all()); return null;
      case "alter_group_offsets": {
        TopicPartition partition = new TopicPartition(topic, ask.get("partition").getAsInt());
        get(admin.alterConsumerGroupOffsets(name, Map.of(partition, new org.apache.kafka.clients.consumer.OffsetAndMetadata(ask.get("offset").getAsLong()))).all());
        return null;
      }
      case "delete_group_offsets": get(admin.deleteConsumerGroupOffsets(name, Set.of(new TopicPartition(topic, ask.get("partition").getAsInt()))).all()); return null;
      case "remove_members": get(admin.removeMembersFromConsumerGroup(name, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove(Agent.text(ask, "instance"))))).all()); return null;
      case "producers": {
        TopicPartition partition = new TopicPartition(topic, ask.get("partition").getAsInt());
        return get(admin.describeProducers(List.of(partition)).partitionResult(partition)).activeProducers().stream()
            .map(it -> Arrays.asList(it.producerId(), it.producerEpoch(), it.lastSequence(), it.currentTransactionStartOffset().orElse(-1))).collect(Collectors.toList());
      }
      case "transactions": get(admin.listTransactions().all()).forEach(it -> found.put(it.transactionalId(), it.state().toString())); return found;
      case "describe_transaction": {
        TransactionDescription it = get(admin.describeTransactions(List.of(name)).description(name));
        found.put("state", it.state().toString());
        found.put("producer", it.producerId());
        found.put("epoch", it.producerEpoch());
        found.put("timeout", it.transactionTimeoutMs());
        found.put("partitions", Agent.pairs(it.topicPartitions()));
        return found;
      }
      case "fence_producer": get(admin.fenceProducers(List.of(name)).all()); return null;
      case "features": {
        FeatureMetadata it = get(admin.describeFeatures().featureMetadata());
        it.finalizedFeatures().forEach((feature, range) -> found.put(feature, (int) range.maxVersionLevel()));
        return found;
      }
      default: throw new IllegalArgumentException("no such request: " + ask.get("op"));
    }
  }

  static ConfigResource resource(JsonObject ask) {
    return Agent.text(ask, "topic") != null ? new ConfigResource(ConfigResource.Type.TOPIC, Agent.text(ask, "topic")) : new ConfigResource(ConfigResource.Type.BROKER, Agent.text(ask, "broker"));
  }
}
