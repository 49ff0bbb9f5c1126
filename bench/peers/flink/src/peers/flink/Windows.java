package peers.flink;

import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.*;
import org.apache.flink.api.common.*;
import org.apache.flink.api.common.eventtime.*;
import org.apache.flink.api.common.functions.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.configuration.*;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.legacy.RichSinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.RichSourceFunction;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import peers.common.*;

/** Stages of sliding windows of `from` to `stages` seconds, each second, over one input: count, mean and most of each key. */
final class Windows {
  /** All events were handed on. */
  static volatile boolean sent;
  /** The source may end. */
  static volatile boolean seen;

  static final class Source extends RichSourceFunction<Event> {
    final long events, keys, perSecond;
    Source(long events, long keys, long perSecond) { this.events = events; this.keys = keys; this.perSecond = perSecond; }
    @Override public void run(SourceContext<Event> ctx) throws Exception {
      Bench.Counter c = new Bench.Counter();
      for (long i = 0; i < events && Bench.running; )
        synchronized (ctx.getCheckpointLock()) {
          long end = Math.min(i + 64, events);
          c.add(end - i);
          for (; i < end; i++) ctx.collect(Event.make(i, keys, perSecond));
        }
      sent = true;
      while (Bench.running && !seen) Thread.sleep(1);
    }
    @Override public void cancel() { Bench.running = false; }
  }
  public static final class Held {
    public long n;
    public double sum, most = Double.NEGATIVE_INFINITY;
  }
  static final class Stats implements AggregateFunction<Event, Held, Held> {
    @Override public Held createAccumulator() { return new Held(); }
    @Override public Held add(Event e, Held h) { h.n++; h.sum += e.value; h.most = Math.max(h.most, e.value); return h; }
    @Override public Held getResult(Held h) { return h; }
    @Override public Held merge(Held a, Held b) { a.n += b.n; a.sum += b.sum; a.most = Math.max(a.most, b.most); return a; }
  }
  static final class Rows extends RichSinkFunction<Held> {
    transient Bench.Counter c;
    @Override public void open(OpenContext x) { c = new Bench.Counter(); }
    @Override public void invoke(Held h, Context x) { c.aux(0, 1); }
  }

  static void run(long seconds, Map<String, String> o) throws Exception {
    int p = Integer.parseInt(o.getOrDefault("p", "2")), stages = Integer.parseInt(o.getOrDefault("stages", "10")), from = Integer.parseInt(o.getOrDefault("from", "1"));
    long keys = Long.parseLong(o.getOrDefault("keys", "5000")), perSecond = Long.parseLong(o.getOrDefault("per_second", "100000")), events = seconds * perSecond;
    Configuration c = Main.conf();
    try (MiniCluster m = Main.cluster(c, 1, p)) {
      long before = liveBytes();
      StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(c);
      env.setParallelism(p);
      env.getConfig().enableObjectReuse();
      env.getConfig().setAutoWatermarkInterval(100);
      KeyedStream<Event, Long> input = env.addSource(new Source(events, keys, perSecond)).setParallelism(1).returns(Event.class)
          .assignTimestampsAndWatermarks(WatermarkStrategy.<Event>forMonotonousTimestamps().withTimestampAssigner((e, t) -> e.ts))
          .keyBy(e -> e.key, Types.LONG);
      for (int size = from; size <= stages; size++)
        input.window(SlidingEventTimeWindows.of(Duration.ofSeconds(size), Duration.ofSeconds(1)))
            .aggregate(new Stats(), TypeInformation.of(Held.class), TypeInformation.of(Held.class)).addSink(new Rows());
      JobID id = Main.submit(m, env);
      while (Bench.total() == 0) Thread.sleep(1);
      // What is under way when the last event was sent is little, and taken in this time.
      double[] r = Bench.during(() -> { while (!sent) sleep(1); sleep(500); });
      Bench.note("state_bytes", liveBytes() - before);
      seen = true;
      m.requestJobResult(id).get();
      Bench.note("rows", Bench.aux(0));
      Bench.report("flink", Main.V, "windows", Bench.params("from", from, "stages", stages, "keys", keys, "events", events, "parallelism", p), r);
    }
  }

  static void sleep(long ms) { try { Thread.sleep(ms); } catch (InterruptedException e) { throw new IllegalStateException(e); } }

  /** What of the heap is in use once nothing in it is garbage. */
  static long liveBytes() {
    for (int i = 0; i < 3; i++) System.gc();
    return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
  }
}
