// relay SIZE SECS [warmup=S] [buffer=BYTES] [socket=BYTES] [low=BYTES] [congestion=NAME]: what the sockets alone cost in the
// workload `relay` between two processes. `buffer` is what a call moves, `socket` the size of the kernel's buffers, `low` what a
// reader waits for, `congestion` the algorithm of both ends (reno, bbr …); the system's if none is named.
//
//     process 0: source ── TCP ──▶ process 1: relay ── TCP ──▶ process 0: sink
//
// No engine: every message is a fresh copy of a template, as in the others, and the relay and the sink look at the first
// byte of each. Nothing is framed, acknowledged, timed or kept. Whoever moves messages over TCP does at least this.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static size_t size, buffer_bytes = 1 << 20;
static int socket_bytes, low_water;
static const char *congestion = "";
static int is_relay;
static atomic_ullong received;
// Whoever reads adds up what it looks at, so that the look is not left out.
static volatile unsigned long long seen;

static void die(const char *what) {
  perror(what);
  exit(1);
}

// The other end has gone: the measurement is over.
static void over(void) {
  if (is_relay) _exit(0);
  for (;;) pause();
}

static double now(clockid_t clock) {
  struct timespec at;
  if (clock_gettime(clock, &at)) die("clock_gettime");
  return at.tv_sec + at.tv_nsec / 1e9;
}

static void write_all(int to, const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t wrote = write(to, bytes, count);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) over();
    bytes += wrote;
    count -= wrote;
  }
}

// Looks at every message that is whole; `rest` is how much of one came before. Gives back how many there were.
static size_t look(const char *bytes, size_t count, size_t *rest) {
  size_t at = *rest ? size - *rest : 0, messages = 0;
  unsigned long long sum = 0;
  for (; at < count; at += size, messages++) sum += (unsigned char)bytes[at];
  seen += sum;
  *rest = (*rest + count) % size;
  return messages;
}

static char *memory(size_t count) {
  char *it;
  if (posix_memalign((void **)&it, 4096, count)) die("memory");
  memset(it, 1, count);
  return it;
}

static void *source(void *to) {
  size_t count = buffer_bytes / size ? buffer_bytes / size : 1;
  char *template = memory(size), *buffer = memory(count * size);
  for (;;) {
    for (size_t i = 0; i < count; i++) memcpy(buffer + i * size, template, size);
    __asm__ volatile("" ::: "memory");  // Each is written, though it is what was there.
    write_all(*(int *)to, buffer, count * size);
  }
  return NULL;
}

static void pass_on(int from, int to) {
  char *buffer = memory(buffer_bytes);
  size_t rest = 0;
  for (;;) {
    ssize_t count = read(from, buffer, buffer_bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) over();
    size_t messages = look(buffer, count, &rest);
    if (to >= 0) write_all(to, buffer, count);
    else atomic_fetch_add_explicit(&received, messages, memory_order_relaxed);
  }
}

static void *sink(void *from) {
  pass_on(*(int *)from, -1);
  return NULL;
}

// Two ends of a connection over the loopback interface.
static void connection(int ends[2]) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  if (bind(listener, (void *)&at, length) || listen(listener, 1) || getsockname(listener, (void *)&at, &length)) die("listen");
  ends[0] = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(ends[0], (void *)&at, length) || (ends[1] = accept(listener, NULL, NULL)) < 0) die("connect");
  for (int i = 0; i < 2; i++) {
    setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (socket_bytes) setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &socket_bytes, sizeof socket_bytes);
    if (socket_bytes) setsockopt(ends[i], SOL_SOCKET, SO_RCVBUF, &socket_bytes, sizeof socket_bytes);
    if (low_water) setsockopt(ends[i], SOL_SOCKET, SO_RCVLOWAT, &low_water, sizeof low_water);
    if (*congestion && setsockopt(ends[i], IPPROTO_TCP, TCP_CONGESTION, congestion, strlen(congestion))) die(congestion);
  }
  close(listener);
}

// CPU seconds of all processors that were not idle.
static double busy(void) {
  unsigned long long user, nice, system, idle, wait, irq, soft;
  FILE *stat = fopen("/proc/stat", "r");
  if (!stat || fscanf(stat, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait, &irq, &soft) != 7) die("/proc/stat");
  fclose(stat);
  return (double)(user + nice + system + irq + soft) / sysconf(_SC_CLK_TCK);
}

// The most memory that a process has had.
static double peak_mb(pid_t process) {
  char line[256];
  long kib = 0;
  snprintf(line, sizeof line, "/proc/%d/status", process);
  FILE *status = fopen(line, "r");
  if (!status) die(line);
  while (fgets(line, sizeof line, status) && sscanf(line, "VmHWM: %ld", &kib) != 1);
  fclose(status);
  return kib / 1024.0;
}

static void nap(double seconds) {
  struct timespec span = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
  nanosleep(&span, NULL);
}

int main(int count, char **words) {
  if (count < 3 || (size = strtoul(words[1], NULL, 10)) == 0) return fprintf(stderr, "usage: relay SIZE SECS [warmup=S] [buffer=BYTES] [socket=BYTES] [low=BYTES] [congestion=NAME]\n"), 2;
  double seconds = atof(words[2]), warmup = 1;
  for (int i = 3; i < count; i++) {
    if (!strncmp(words[i], "warmup=", 7)) warmup = atof(words[i] + 7);
    else if (!strncmp(words[i], "buffer=", 7)) buffer_bytes = strtoul(words[i] + 7, NULL, 10);
    else if (!strncmp(words[i], "socket=", 7)) socket_bytes = atoi(words[i] + 7);
    else if (!strncmp(words[i], "low=", 4)) low_water = atoi(words[i] + 4);
    else if (!strncmp(words[i], "congestion=", 11)) congestion = words[i] + 11;
    else return fprintf(stderr, "unknown: %s\n", words[i]), 2;
  }
  int there[2], back[2];
  connection(there);
  connection(back);
  signal(SIGPIPE, SIG_IGN);
  pid_t relay = fork();
  if (relay < 0) die("fork");
  if (relay == 0) {
    is_relay = 1;
    close(there[0]), close(back[1]);
    pass_on(there[1], back[0]);
  }
  close(there[1]), close(back[0]);
  pthread_t threads[2];
  if (pthread_create(&threads[0], NULL, source, &there[0]) || pthread_create(&threads[1], NULL, sink, &back[1])) die("thread");
  clockid_t of_relay;
  if (clock_getcpuclockid(relay, &of_relay)) die("clock_getcpuclockid");
  nap(warmup);
  double cpu = now(CLOCK_PROCESS_CPUTIME_ID) + now(of_relay), others = busy(), from = now(CLOCK_MONOTONIC);
  unsigned long long items = atomic_load(&received);
  nap(seconds);
  items = atomic_load(&received) - items;
  cpu = now(CLOCK_PROCESS_CPUTIME_ID) + now(of_relay) - cpu;
  double took = now(CLOCK_MONOTONIC) - from;
  others = (busy() - others - cpu) / took;
  double memory_mb = peak_mb(getpid()) + peak_mb(relay);
  kill(relay, SIGKILL);
  waitpid(relay, NULL, 0);
  printf("{\"engine\": \"sockets\", \"workload\": \"relay\", \"message_bytes\": %zu, \"buffer_bytes\": %zu, \"items\": %llu, "
         "\"throughput_per_s\": %.1f, \"p50_ms\": null, \"p99_ms\": null, \"cpu_s\": %.3f, \"cpu_us_per_item\": %.4f, "
         "\"peak_rss_mb\": %.1f, \"other_cores_busy\": %.2f}\n",
         size, buffer_bytes, items, items / took, cpu, cpu / items * 1e6, memory_mb, others > 0 ? others : 0);
  return 0;
}
