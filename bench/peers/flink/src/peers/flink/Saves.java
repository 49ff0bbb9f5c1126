package peers.flink;

import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.rocksdb.*;
import peers.common.*;

/** Values saved under random keys in the RocksDB that Flink brings along, one sync for each batch; then what opening it after that takes. */
final class Saves {
  static byte[] key(long number) {
    byte[] key = "key-000000000000".getBytes(StandardCharsets.US_ASCII);
    for (int i = key.length - 1; number > 0; i--, number /= 10) key[i] += (byte) (number % 10);
    return key;
  }

  static void save(RocksDB db, WriteOptions how, long[] keys, byte[] value, Bench.Counter c) {
    try (WriteBatch batch = new WriteBatch()) {
      long saves = Bench.total();
      for (long key : keys) {
        // A value that was not there before.
        for (int i = 0; i < 8; i++) value[i] = (byte) (saves + key >> 8 * i);
        batch.put(key(key), value);
      }
      db.write(how, batch);
    } catch (RocksDBException e) { throw new IllegalStateException(e); }
    c.add(keys.length);
  }

  static void run(double secs, Map<String, String> o) throws Exception {
    long keys = Long.parseLong(o.getOrDefault("keys", "100000"));
    int batch = Integer.parseInt(o.getOrDefault("batch", "1000")), bytes = Integer.parseInt(o.getOrDefault("value_bytes", "1024"));
    Path dir = Files.createTempDirectory(Path.of(o.getOrDefault("data", System.getenv("PEERS_HOME"))), "rocksdb-saves");
    RocksDB.loadLibrary();
    try (Options options = new Options().setCreateIfMissing(true).setIncreaseParallelism(2); WriteOptions how = new WriteOptions().setSync(true)) {
      byte[] value = new byte[bytes];
      Bench.Counter c = new Bench.Counter();
      RocksDB db = RocksDB.open(options, dir.toString());
      for (long at = 0; at < keys; at += batch) {
        save(db, how, java.util.stream.LongStream.range(at, Math.min(at + batch, keys)).toArray(), value, c);
      }
      SplittableRandom random = new SplittableRandom(1);
      Runnable saves = () -> {
        for (long end = System.nanoTime() + (long) (secs * 1e9); System.nanoTime() < end; ) save(db, how, random.longs(batch, 0, keys).toArray(), value, c);
      };
      saves.run();      // until what is hot is compiled
      double[] r = Bench.during(saves);
      // Its table in memory is not written down by this: what was saved last is read from the log again.
      db.close();
      long start = System.nanoTime();
      try (RocksDB again = RocksDB.open(options, dir.toString())) {
        Bench.note("open_ms", (System.nanoTime() - start) / 1e6);
        long missing = 0;
        for (long key = 0; key < keys; key += Math.max(1, keys / 1_000)) if (again.get(key(key)) == null) missing++;
        Bench.note("missing", missing);
      }
      long stored = 0;
      try (var files = Files.walk(dir)) { for (Path f : files.filter(Files::isRegularFile).toList()) stored += Files.size(f); }
      Bench.note("stored_bytes", stored);
      Bench.report("flink", Main.V, "saves", Bench.params("backend", "rocksdb", "keys", keys, "value_bytes", bytes, "batch", batch), r);
    } finally {
      Main.deleteAll(dir);
    }
  }
}
