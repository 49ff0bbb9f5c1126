// copy SIZE SECS [memory=BYTES] [ahead=BYTES]: what it costs one thread to write each message anew, and nothing else.
//
// Every message is a copy of a template, behind the one before, in `memory` bytes (4 MiB if nothing is said) that are written
// over and over. With `ahead` the memory so far behind is asked for before each copy. Nobody reads: in a relay between two
// threads the lines are in the other one's caches besides.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(clockid_t clock) {
  struct timespec at;
  if (clock_gettime(clock, &at)) exit((perror("clock_gettime"), 1));
  return at.tv_sec + at.tv_nsec / 1e9;
}

int main(int count, char **words) {
  size_t size, bytes = 4 << 20, ahead = 0;
  if (count < 3 || (size = strtoul(words[1], NULL, 10)) == 0) return fprintf(stderr, "usage: copy SIZE SECS [memory=BYTES] [ahead=BYTES]\n"), 2;
  double seconds = atof(words[2]);
  for (int i = 3; i < count; i++) {
    if (!strncmp(words[i], "memory=", 7)) bytes = strtoul(words[i] + 7, NULL, 10);
    else if (!strncmp(words[i], "ahead=", 6)) ahead = strtoul(words[i] + 6, NULL, 10);
    else return fprintf(stderr, "unknown: %s\n", words[i]), 2;
  }
  if (bytes < size) return fprintf(stderr, "memory=%zu holds no message of %zu bytes\n", bytes, size), 2;
  // What is asked for may lie behind the last message.
  char *template = calloc(1, size), *memory = malloc(bytes + ahead + size);
  if (!template || !memory) return perror("memory"), 1;
  memset(memory, 1, bytes + ahead + size);
  // A call, as where the size is known only when it runs.
  void *(*volatile copy_now)(void *, const void *, size_t) = memcpy;
  void *(*copy)(void *, const void *, size_t) = copy_now;
  unsigned long long items = 0;
  double cpu = now(CLOCK_PROCESS_CPUTIME_ID), from = now(CLOCK_MONOTONIC), took;
  do {
    for (size_t at = 0; at + size <= bytes; at += size, items++) {
      for (size_t line = 0; ahead && line < size; line += 64) __builtin_prefetch(memory + at + ahead + line);
      copy(memory + at, template, size);
    }
  } while ((took = now(CLOCK_MONOTONIC) - from) < seconds);
  cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  printf("{\"engine\": \"memory\", \"workload\": \"copy\", \"message_bytes\": %zu, \"memory_bytes\": %zu, \"ahead_bytes\": %zu, \"items\": %llu, "
         "\"throughput_per_s\": %.1f, \"cpu_s\": %.3f, \"cpu_us_per_item\": %.4f}\n",
         size, bytes, ahead, items, items / took, cpu, cpu / items * 1e6);
  return 0;
}
