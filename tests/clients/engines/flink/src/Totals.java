import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A Flink job: the running count of each value, from topic to topic, exactly once. It fails on purpose after so many
 * records, once, and goes on from its last checkpoint.
 * Arguments: brokers, source, sink, folder of its checkpoints, records before it fails.
 */
public final class Totals {
    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[3]), failed = folder.resolve("failed");
        Files.createDirectories(folder);
        int failAfter = Integer.parseInt(args[4]);

        var configuration = new Configuration();
        configuration.setString("execution.checkpointing.dir", folder.toUri().toString());
        configuration.setString("restart-strategy.type", "fixed-delay");
        configuration.setString("restart-strategy.fixed-delay.attempts", "20");
        configuration.setString("restart-strategy.fixed-delay.delay", "500 ms");
        var environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment.setParallelism(2);
        environment.enableCheckpointing(300);

        var source = KafkaSource.<String>builder()
            .setBootstrapServers(args[0])
            .setTopics(args[1])
            .setGroupId("flink-" + args[2])
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setBounded(OffsetsInitializer.latest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            // Slowly, so that there are checkpoints on the way.
            .setProperty("max.poll.records", "50")
            .build();
        var sink = KafkaSink.<String>builder()
            .setBootstrapServers(args[0])
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix("flink-" + args[2])
            .setProperty("transaction.timeout.ms", "60000")
            .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                .setTopic(args[2]).setValueSerializationSchema(new SimpleStringSchema()).build())
            .build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "source", Types.STRING)
            .map(it -> {
                Thread.sleep(1);
                return it;
            }).returns(Types.STRING)
            .keyBy(it -> it)
            .map(new Total(failAfter, failed.toString()))
            .sinkTo(sink);
        environment.execute("totals");
        System.out.println("finished");
    }

    static final class Total extends RichMapFunction<String, String> {
        private final int failAfter;
        private final String failed;
        private transient int seen;
        private transient ValueState<Long> count;

        Total(int failAfter, String failed) {
            this.failAfter = failAfter;
            this.failed = failed;
        }

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public String map(String value) throws Exception {
            Path mark = Path.of(failed);
            if (++seen > failAfter && !Files.exists(mark)) {
                Files.createFile(mark);
                throw new IllegalStateException("failed on purpose");
            }
            long now = (count.value() == null ? 0 : count.value()) + 1;
            count.update(now);
            return value + " " + now;
        }
    }
}
