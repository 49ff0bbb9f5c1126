package peers.common;

import java.io.IOException;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/** Counters, latency histogram, CPU/RSS and the one JSON line; shared by all JVM peers (same definitions in Rust). */
public final class Bench {
  public static volatile boolean running = true;      // sources stop when false
  public static volatile boolean measuring = false;   // latency samples are kept only while true
  static final CopyOnWriteArrayList<Counter> counters = new CopyOnWriteArrayList<>();
  static final TreeMap<String, String> extra = new TreeMap<>();

  /** One per sink instance; not shared between threads. */
  public static final class Counter {
    private final AtomicLong shown = new AtomicLong();
    private long n;
    final long[] hist = new long[64 * 32];
    final AtomicLong[] aux = {new AtomicLong(), new AtomicLong()};
    public Counter() { counters.add(this); }
    public void add(long k) { n += k; shown.lazySet(n); }
    public void aux(int i, long k) { aux[i].lazySet(aux[i].get() + k); }
    public void latency(long ns) { if (measuring) hist[bucket(ns)]++; }
  }

  static int bucket(long v) {
    if (v < 32) return (int) Math.max(v, 0);
    int e = 63 - Long.numberOfLeadingZeros(v);
    return (e - 4) * 32 + (int) ((v >>> (e - 5)) & 31);
  }
  static double value(int b) {
    if (b < 32) return b;
    int e = b / 32 + 4;
    return (double) (1L << e) + ((b % 32) + 0.5) * (double) (1L << (e - 5));
  }

  public static long total() { long s = 0; for (Counter c : counters) s += c.shown.get(); return s; }
  public static long aux(int i) { long s = 0; for (Counter c : counters) s += c.aux[i].get(); return s; }
  public static void note(String k, Object v) { extra.put(k, v instanceof Number || v instanceof Boolean ? v.toString() : "\"" + v + "\""); }

  static double cpu() {
    return ((com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
  }
  static double busy() {   // all CPUs, seconds not idle (USER_HZ = 100)
    try {
      String[] f = Files.readAllLines(Path.of("/proc/stat")).get(0).trim().split("\\s+");
      long s = 0;
      for (int i : new int[] {1, 2, 3, 6, 7}) s += Long.parseLong(f[i]);
      return s / 100.0;
    } catch (IOException e) { return 0; }
  }
  static long hwmMb() {
    try {
      for (String l : Files.readAllLines(Path.of("/proc/self/status")))
        if (l.startsWith("VmHWM:")) return Long.parseLong(l.replaceAll("\\D", "")) / 1024;
    } catch (IOException e) { /* not Linux */ }
    return -1;
  }

  static void sleep(double s) { try { Thread.sleep((long) (s * 1000)); } catch (InterruptedException e) { throw new RuntimeException(e); } }

  /** Wait for the first message, warm up, measure for secs, stop the sources. */
  public static double[] timed(double warmup, double secs) {
    while (total() == 0) sleep(0.005);
    sleep(warmup);
    measuring = true;
    long n0 = total(), t0 = System.nanoTime();
    double c0 = cpu(), b0 = busy();
    sleep(secs);
    measuring = false;
    long n1 = total(), t1 = System.nanoTime();
    double c1 = cpu(), b1 = busy();
    running = false;
    return new double[] {n1 - n0, (t1 - t0) / 1e9, c1 - c0, b1 - b0};
  }

  /** Measures while `body` runs. */
  public static double[] during(Runnable body) {
    long n0 = total(), t0 = System.nanoTime();
    double c0 = cpu(), b0 = busy();
    body.run();
    return new double[] {total() - n0, (System.nanoTime() - t0) / 1e9, cpu() - c0, busy() - b0};
  }

  /** Like timed, but both ends of the measurement are moments when a whole window (`per` events) has been delivered. */
  public static double[] windows(double warmup, double secs, long per) {
    while (total() == 0) sleep(0.005);
    sleep(warmup);
    double[] a = boundary(per), b;
    measuring = true;
    do b = boundary(per); while ((b[1] - a[1]) < secs);
    measuring = false;
    running = false;
    note("windows", Math.round((b[0] - a[0]) / per));
    return new double[] {b[0] - a[0], b[1] - a[1], b[2] - a[2], b[3] - a[3]};
  }
  private static double[] boundary(long per) {
    long k = total() / per + 1;
    while (total() < k * per) sleep(0.002);
    return new double[] {k * per, System.nanoTime() / 1e9, cpu(), busy()};
  }

  /** Run until `total` items were counted; "steady" leaves out the first 20 % (start and JIT warm-up). */
  public static double[] whole(long total) { return whole(total, false); }
  /** lossy: accept an end without progress for 5 s (an at-most-once engine), and say how many items are missing. */
  public static double[] whole(long total, boolean lossy) {
    while (total() == 0) sleep(0.001);
    measuring = true;
    long t0 = System.nanoTime(), ts = 0, ns = 0, seen = 0, moved = t0;
    double c0 = cpu(), b0 = busy(), cm = c0, bm = b0;
    while (true) {
      long n = total(), now = System.nanoTime();
      if (ts == 0 && n >= total / 5) { ts = now; ns = n; }
      if (n >= total) {
        note("steady_per_s", Math.round((n - ns) / ((now - ts) / 1e9)));
        return new double[] {n, (now - t0) / 1e9, cpu() - c0, busy() - b0};
      }
      if (n != seen) { seen = n; moved = now; cm = cpu(); bm = busy(); }
      if (lossy && now - moved > 5_000_000_000L) {
        note("missing", total - n);
        note("steady_per_s", ts == 0 ? 0 : Math.round((n - ns) / ((moved - ts) / 1e9)));
        return new double[] {n, (moved - t0) / 1e9, cm - c0, bm - b0};
      }
      if (now - moved > 60_000_000_000L) throw new IllegalStateException("no progress for 60 s at " + n + " of " + total);
      sleep(0.005);
    }
  }

  public static void report(String engine, String version, String workload, String params, double[] m) {
    long[] h = new long[64 * 32];
    long samples = 0;
    for (Counter c : counters) for (int i = 0; i < h.length; i++) { h[i] += c.hist[i]; samples += c.hist[i]; }
    StringBuilder s = new StringBuilder();
    s.append(String.format(Locale.ROOT, "{\"engine\":\"%s\",\"version\":\"%s\",\"workload\":\"%s\",\"params\":{%s},\"throughput_per_s\":%.0f,", engine, version, workload, params, m[0] / m[1]));
    if (samples > 0) s.append(String.format(Locale.ROOT, "\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f,\"latency_samples\":%d,", pct(h, samples, .5), pct(h, samples, .99), pct(h, samples, 1), samples));
    else s.append("\"p50_ms\":null,\"p99_ms\":null,");
    s.append(String.format(Locale.ROOT, "\"items\":%.0f,\"secs\":%.2f,\"cpu_s\":%.2f,\"cpu_us_per_item\":%.3f,\"peak_rss_mb\":%d,\"other_cores_busy\":%.2f", m[0], m[1], m[2], m[2] * 1e6 / m[0], hwmMb(), Math.max(0, (m[3] - m[2]) / m[1])));
    extra.forEach((k, v) -> s.append(",\"").append(k).append("\":").append(v));
    System.out.println(s.append('}'));
    System.out.flush();
  }
  static double pct(long[] h, long n, double q) {
    long want = Math.max(1, (long) Math.ceil(n * q)), c = 0;
    for (int i = 0; i < h.length; i++) { c += h[i]; if (c >= want) return value(i) / 1e6; }
    return -1;
  }

  /** key=value arguments after the positional ones. */
  public static Map<String, String> opts(String[] a, int from) {
    Map<String, String> m = new LinkedHashMap<>();
    for (int i = from; i < a.length; i++) { int e = a[i].indexOf('='); m.put(a[i].substring(0, e), a[i].substring(e + 1)); }
    return m;
  }
  public static String params(Object... kv) {
    StringBuilder s = new StringBuilder();
    for (int i = 0; i < kv.length; i += 2) {
      if (i > 0) s.append(',');
      s.append('"').append(kv[i]).append("\":");
      if (kv[i + 1] instanceof Number) s.append(kv[i + 1]); else s.append('"').append(kv[i + 1]).append('"');
    }
    return s.toString();
  }

  // ---- relay messages: byte[size]; first 8 bytes = send time in ns when sampled, else 0 ----
  static final java.lang.invoke.VarHandle LONG = java.lang.invoke.MethodHandles.byteArrayViewVarHandle(long[].class, java.nio.ByteOrder.LITTLE_ENDIAN);
  public static final int SAMPLE = 64;

  /** Makes relay messages, at full speed or (rate > 0) on a schedule; the stamp is then the scheduled time. */
  public static final class Source {
    final byte[] template;
    final double rate;
    long seq, start;
    public Source(int size, double rate) {
      template = new byte[size];
      new Random(1).nextBytes(template);
      LONG.set(template, 0, 0L);
      this.rate = rate;
    }
    /** How many messages may be sent now, at most max; waits briefly when ahead of the schedule. */
    public int due(int max) {
      if (rate <= 0) return max;
      long now = System.nanoTime();
      if (start == 0) start = now;
      long d = (long) ((now - start) / 1e9 * rate) - seq;
      if (d <= 0) { LockSupport.parkNanos(50_000); return 0; }
      return (int) Math.min(d, max);
    }
    public byte[] next() {
      byte[] b = template.clone();
      if (seq % SAMPLE == 0) LONG.set(b, 0, rate > 0 ? start + (long) (seq / rate * 1e9) : System.nanoTime());
      seq++;
      return b;
    }
  }
  public static void received(Counter c, byte[] b) {
    c.add(1);
    long t = (long) LONG.get(b, 0);
    if (t != 0) c.latency(System.nanoTime() - t);
  }

  // ---- text ----
  public static String[] lines() {
    try { return Files.readAllLines(Path.of(System.getenv("PEERS_TEXT"))).toArray(new String[0]); }
    catch (IOException e) { throw new RuntimeException(e); }
  }
  public static long words(String[] lines) {
    long n = 0;
    for (String l : lines) { n++; for (int i = 0; i < l.length(); i++) if (l.charAt(i) == ' ') n++; }
    return n;
  }

  // ---- keyed events ----
  public static final int KEYS = 1_000_000;
  public static final long PER_SECOND = 2_000_000;   // events per second of event time
  public static long mix(long z) {                    // splitmix64
    z += 0x9E3779B97F4A7C15L;
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
    return z ^ (z >>> 31);
  }
}
