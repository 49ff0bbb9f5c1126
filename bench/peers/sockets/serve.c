// serve FILE GB [how=read|sendfile|memory] [buffer=BYTES] [congestion=NAME]: what it costs to send GB gigabytes of a file's bytes to one client
// over loopback TCP, again from its beginning whenever it ends. Server on CPU 0, client on CPU 1, as bench/broker pins them.
//
//     read      a call reads from the file, another sends: a broker that looks at what it sends
//     sendfile  the system sends from the file: a broker that does not
//     memory    the same bytes each time: no file at all
//
// `congestion` is the algorithm of the server's end (reno, bbr …); the system's if none is named.
//
// No protocol, no records, no waiting: whoever serves consumers over TCP does at least one of these.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const size_t client_buffer_bytes = 64 << 10;

static void die(const char *what) {
  perror(what);
  exit(1);
}

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set)) die("sched_setaffinity");
}

static double now(clockid_t clock) {
  struct timespec at;
  if (clock_gettime(clock, &at)) die("clock_gettime");
  return at.tv_sec + at.tv_nsec / 1e9;
}

static char *memory(size_t count) {
  char *it;
  if (posix_memalign((void **)&it, 4096, count)) die("memory");
  memset(it, 1, count);
  return it;
}

static void client(struct sockaddr_in at) {
  pin(1);
  char *buffer = memory(client_buffer_bytes);
  int from = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(from, (void *)&at, sizeof at)) die("connect");
  for (ssize_t count; (count = read(from, buffer, client_buffer_bytes)) != 0;)
    if (count < 0 && errno != EINTR) die("read");
  _exit(0);
}

static size_t send_all(int to, const char *bytes, size_t count) {
  for (size_t sent = 0; sent < count;) {
    ssize_t some = send(to, bytes + sent, count - sent, MSG_NOSIGNAL);
    if (some < 0 && errno != EINTR) die("send");
    if (some > 0) sent += some;
  }
  return count;
}

int main(int count, char **words) {
  const char *usage = "usage: serve FILE GB [how=read|sendfile|memory] [buffer=BYTES] [congestion=NAME]\n", *how = "read", *congestion = "";
  size_t buffer_bytes = 512 << 10;
  if (count < 3) return fputs(usage, stderr), 2;
  for (int i = 3; i < count; i++) {
    if (!strncmp(words[i], "how=", 4)) how = words[i] + 4;
    else if (!strncmp(words[i], "buffer=", 7)) buffer_bytes = strtoul(words[i] + 7, NULL, 10);
    else if (!strncmp(words[i], "congestion=", 11)) congestion = words[i] + 11;
    else return fputs(usage, stderr), 2;
  }
  int reads = !strcmp(how, "read"), sends_file = !strcmp(how, "sendfile");
  if (buffer_bytes == 0 || !(reads || sends_file || !strcmp(how, "memory"))) return fputs(usage, stderr), 2;
  double wanted = atof(words[2]) * 1e9;
  int file = open(words[1], O_RDONLY);
  if (file < 0) die(words[1]);
  char *buffer = memory(buffer_bytes);
  // The file is in the system's memory when the client comes.
  off_t size = 0;
  for (ssize_t some; (some = pread(file, buffer, buffer_bytes, size)) != 0; size += some)
    if (some < 0) die("pread");
  if (size == 0) return fprintf(stderr, "%s is empty\n", words[1]), 1;

  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  if (bind(listener, (void *)&at, length) || listen(listener, 1) || getsockname(listener, (void *)&at, &length)) die("listen");
  pid_t other = fork();
  if (other < 0) die("fork");
  if (other == 0) client(at);
  pin(0);
  int to = accept(listener, NULL, NULL);
  if (to < 0) die("accept");
  setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (*congestion && setsockopt(to, IPPROTO_TCP, TCP_CONGESTION, congestion, strlen(congestion))) die(congestion);

  double cpu = now(CLOCK_PROCESS_CPUTIME_ID), from = now(CLOCK_MONOTONIC), sent = 0;
  for (off_t place = 0; sent < wanted;) {
    if (place >= size) place = 0;
    ssize_t some;
    if (sends_file) some = sendfile(to, file, &place, buffer_bytes);
    else if (reads) {
      some = pread(file, buffer, buffer_bytes, place);
      if (some > 0) place += send_all(to, buffer, some);
    } else some = send_all(to, buffer, buffer_bytes);
    if (some < 0 && errno != EINTR) die(how);
    if (some > 0) sent += some;
  }
  close(to);
  cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  double took = now(CLOCK_MONOTONIC) - from;
  waitpid(other, NULL, 0);
  printf("{\"engine\": \"sockets\", \"workload\": \"serve\", \"how\": \"%s\", \"buffer_bytes\": %zu, \"gb\": %.3f, \"gb_per_s\": %.3f, "
         "\"cpu_s\": %.3f, \"cpu_s_per_gb\": %.4f}\n",
         how, buffer_bytes, sent / 1e9, sent / 1e9 / took, cpu, cpu / (sent / 1e9));
  return 0;
}
