package peers.flink;

import java.nio.file.*;
import java.util.*;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.*;
import org.apache.flink.api.common.functions.*;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.configuration.*;
import org.apache.flink.runtime.jobgraph.*;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.RichSourceFunction;
import peers.common.*;

/** Count, sum, least and most of each of `keys` keys: every key once, then random ones, at a rate or as fast as they are taken. */
final class Aggregates {
  static final int TIMED = 100_000;
  static final long BATCH_NS = 1_000_000;
  static final Pace PACE = new Pace();

  /** When events are due, once every key was there; they come in batches of one millisecond. */
  static final class Pace {
    volatile double rate;
    volatile long first, fromNs;
    long due(long next) {
      if (rate <= 0) return Long.MAX_VALUE;
      if (fromNs == 0) { first = next; fromNs = System.nanoTime(); }
      return first + (long) ((System.nanoTime() - fromNs) / BATCH_NS * BATCH_NS / 1e9 * rate) - next;
    }
    long dueNs(long event) { return fromNs + (long) ((event - first) / rate * 1e9); }
  }

  /** What is held of a key. */
  public static final class Held {
    public long n;
    public double sum, least = Double.POSITIVE_INFINITY, most = Double.NEGATIVE_INFINITY;
  }

  static final class Source extends RichSourceFunction<Long> {
    final long keys, from;
    Source(long keys, long from) { this.keys = keys; this.from = from; }
    @Override public void run(SourceContext<Long> ctx) {
      for (long next = from; Bench.running; ) {
        long count = next < keys ? 64 : Math.min(64, PACE.due(next));
        if (count <= 0) { LockSupport.parkNanos(100_000); continue; }
        synchronized (ctx.getCheckpointLock()) {
          for (long end = next + count; next < end; next++) ctx.collect(next < keys ? next : (Bench.mix(next) >>> 1) % keys);
        }
      }
    }
    @Override public void cancel() { Bench.running = false; }
  }
  static final class Update extends RichMapFunction<Long, Long> {
    transient ValueState<Held> state;
    transient Bench.Counter c;
    @Override public void open(OpenContext x) {
      state = getRuntimeContext().getState(new ValueStateDescriptor<>("held", TypeInformation.of(Held.class)));
      c = new Bench.Counter();
    }
    @Override public Long map(Long key) throws Exception {
      Held held = state.value();
      if (held == null) held = new Held();
      double value = (Bench.mix(key + held.n) >>> 1) % 1_000;
      held.n++;
      held.sum += value;
      held.least = Math.min(held.least, value);
      held.most = Math.max(held.most, value);
      state.update(held);
      c.add(1);
      return key;
    }
  }

  static JobID start(MiniCluster m, Configuration c, int p, Source source, String from) throws Exception {
    StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(c);
    env.setParallelism(p).setBufferTimeout(1);
    env.getConfig().enableObjectReuse();
    env.addSource(source).setParallelism(1).returns(Long.class).uid("events")
        .keyBy(k -> k, Types.LONG).map(new Update()).returns(Long.class).uid("state").addSink(new SinkFunction<Long>() {});
    JobGraph graph = env.getStreamGraph().getJobGraph();
    if (from != null) graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(from));
    return m.submitJob(graph).get().getJobID();
  }

  /** Looks how far it is every 0.5 ms, for so long; notes what it saw. */
  static void watch(double secs) {
    int most = (int) (secs * 2_000) + 1;
    long[] ns = new long[most], events = new long[most];
    int n = 0;
    for (long end = System.nanoTime() + (long) (secs * 1e9); System.nanoTime() < end && n < most; n++) {
      ns[n] = System.nanoTime();
      events[n] = Bench.total();
      LockSupport.parkNanos(500_000);
    }
    long longest = 0;
    for (int i = 0, j = 0; i < n; i++) {
      while (j < n && events[j] < events[i] + TIMED) j++;
      if (j == n) break;
      longest = Math.max(longest, ns[j] - ns[i]);
    }
    Bench.note("longest_ms", longest / 1e6);
    if (PACE.rate <= 0) return;
    double[] behind = new double[n];
    for (int i = 0; i < n; i++) behind[i] = Math.max(0, ns[i] - PACE.dueNs(events[i])) / 1e6;
    Arrays.sort(behind);
    Bench.note("latency_p50_ms", behind[n / 2]);
    Bench.note("latency_p99_ms", behind[(int) (n * 0.99)]);
    Bench.note("latency_max_ms", behind[n - 1]);
  }

  static void run(double secs, Map<String, String> o) throws Exception {
    int p = Integer.parseInt(o.getOrDefault("p", "2"));
    long keys = Long.parseLong(o.getOrDefault("keys", "10000000")), interval = Long.parseLong(o.getOrDefault("interval", "10"));
    PACE.rate = Double.parseDouble(o.getOrDefault("rate", "0"));
    String backend = o.getOrDefault("backend", "heap");
    Path dir = Files.createTempDirectory(Path.of(o.getOrDefault("data", System.getenv("PEERS_HOME"))), "flink-agg");
    Configuration c = Main.conf();
    Main.state(c, backend, dir, interval, 2048);
    c.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
    try (MiniCluster m = Main.cluster(c, 1, p)) {
      JobID id = start(m, c, p, new Source(keys, 0), null);
      while (Bench.total() < keys) Thread.sleep(10);
      long loaded = completed(m, id);
      // One that began before all keys were there does not count.
      while (interval > 0 && completed(m, id) <= loaded + 1) Thread.sleep(10);
      double[] r = Bench.during(() -> watch(secs));
      String path = null;
      if (interval > 0) {
        var stats = m.getExecutionGraph(id).get().getCheckpointStatsSnapshot();
        var last = stats.getHistory().getLatestCompletedCheckpoint();
        Bench.note("checkpoints", stats.getCounts().getNumberOfCompletedCheckpoints() - loaded);
        Bench.note("checkpoint_ms", last.getEndToEndDuration());
        Bench.note("checkpoint_bytes", last.getCheckpointedSize());
        path = last.getExternalPath();
      }
      m.cancelJob(id).get();
      m.requestJobResult(id).get();
      if (path != null) recover(m, c, p, keys, path);
      Bench.report("flink", Main.V, "aggregates", Bench.params("backend", backend, "keys", keys, "rate", PACE.rate, "interval_s", interval, "parallelism", p), r);
    } finally {
      Main.deleteAll(dir);
    }
  }

  /** A new job from the last checkpoint: how long until it has processed something. */
  static void recover(MiniCluster m, Configuration c, int p, long keys, String path) throws Exception {
    long before = Bench.total(), start = System.nanoTime();
    Bench.running = true;
    JobID id = start(m, c, p, new Source(keys, keys), path);
    while (Bench.total() <= before) Thread.sleep(1);
    Bench.note("first_output_ms", (System.nanoTime() - start) / 1e6);
    m.cancelJob(id).get();
    m.requestJobResult(id).get();
  }

  static long completed(MiniCluster m, JobID id) throws Exception {
    var stats = m.getExecutionGraph(id).get().getCheckpointStatsSnapshot();
    return stats == null ? 0 : stats.getCounts().getNumberOfCompletedCheckpoints();
  }
}
