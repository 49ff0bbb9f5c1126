// Latency from end to end at a fixed rate, with Kafka's own Java client: an open loop, as latency/main.go.
// usage: Latency BOOTSTRAP TOPIC PARTITIONS SIZE COUNT WARMUP RATE. Prints one line of JSON.

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

public class Latency {
  public static void main(String[] given) throws Exception {
    String bootstrap = given[0], topic = given[1];
    int partitions = Integer.parseInt(given[2]), size = Integer.parseInt(given[3]);
    int warmup = Integer.parseInt(given[5]), total = warmup + Integer.parseInt(given[4]), rate = Integer.parseInt(given[6]);
    Properties producing = new Properties(), consuming = new Properties();
    producing.putAll(Map.of("bootstrap.servers", bootstrap, "acks", "all", "linger.ms", "0", "enable.idempotence", "false"));
    consuming.putAll(Map.of("bootstrap.servers", bootstrap, "enable.auto.commit", "false", "auto.offset.reset", "earliest", "max.poll.records", "10000"));
    long[] latency = new long[total];
    AtomicInteger got = new AtomicInteger(), failed = new AtomicInteger();
    CountDownLatch first = new CountDownLatch(1);
    Thread reader = new Thread(() -> {
      try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(consuming, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
        List<TopicPartition> all = new ArrayList<>();
        for (int i = 0; i < partitions; i++) all.add(new TopicPartition(topic, i));
        consumer.assign(all);
        long last = System.nanoTime();
        while (got.get() < total && System.nanoTime() - last < 30_000_000_000L) {
          ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
          long now = System.nanoTime();
          for (ConsumerRecord<byte[], byte[]> it : records) {
            ByteBuffer value = ByteBuffer.wrap(it.value());
            long due = value.getLong(), number = value.getLong();
            last = now;
            if (number < 0) first.countDown();
            else {
              latency[(int) number] = now - due;
              got.incrementAndGet();
            }
          }
        }
      }
    });
    reader.start();
    byte[] filling = new byte[size];
    new Random(1).nextBytes(filling);
    long start, sent;
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(producing, new ByteArraySerializer(), new ByteArraySerializer())) {
      Callback done = (stored, error) -> { if (error != null) failed.incrementAndGet(); };
      byte[] probe = filling.clone();
      ByteBuffer.wrap(probe).putLong(0).putLong(-1);
      producer.send(new ProducerRecord<>(topic, 0, null, probe), done);
      first.await();
      start = System.nanoTime() + 50_000_000L;
      for (int i = 0; i < total; i++) {
        long due = start + (long) (i * 1e9 / rate), left;
        while ((left = due - System.nanoTime()) > 0) LockSupport.parkNanos(left);
        byte[] value = filling.clone();
        ByteBuffer.wrap(value).putLong(due).putLong(i);
        producer.send(new ProducerRecord<>(topic, i % partitions, null, value), done);
      }
      sent = System.nanoTime() - start;
      producer.flush();
    }
    reader.join();
    long[] measured = Arrays.copyOfRange(latency, warmup, total);
    Arrays.sort(measured);
    System.out.printf(Locale.ROOT,
        "{\"records\": %d, \"expected\": %d, \"failed\": %d, \"rate_per_s\": %.0f, \"p50_ms\": %.3f, \"p90_ms\": %.3f, \"p99_ms\": %.3f, \"p999_ms\": %.3f, \"max_ms\": %.3f}%n",
        got.get(), total, failed.get(), total * 1e9 / sent, at(measured, .5), at(measured, .9), at(measured, .99), at(measured, .999), at(measured, 1));
    System.exit(got.get() == total && failed.get() == 0 ? 0 : 1);
  }

  static double at(long[] sorted, double part) {
    return sorted[(int) (part * (sorted.length - 1))] / 1e6;
  }
}
