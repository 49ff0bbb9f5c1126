// Latency from end to end at a fixed rate, with franz-go: an open loop, so that a stall of the broker is not hidden.
// A record's latency is the time it was read less the time it was to be sent. Prints one line of JSON.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"log"
	"math/rand"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap := flag.String("bootstrap", "127.0.0.1:9092", "broker")
	topic := flag.String("topic", "latency", "a topic without records")
	partitions := flag.Int("partitions", 1, "its partitions")
	size := flag.Int("size", 100, "bytes of a record")
	count := flag.Int("count", 100_000, "records")
	warmup := flag.Int("warmup", 20_000, "records before these, not measured")
	rate := flag.Int("rate", 10_000, "records a second")
	flag.Parse()
	total := *warmup + *count

	producer, err := kgo.NewClient(kgo.SeedBrokers(*bootstrap), kgo.DefaultProduceTopic(*topic), kgo.ProducerLinger(0), kgo.DisableIdempotentWrite(),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.MaxProduceRequestsInflightPerBroker(5), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		log.Fatal(err)
	}
	all := map[int32]kgo.Offset{}
	for i := range *partitions {
		all[int32(i)] = kgo.NewOffset().AtStart()
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(*bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{*topic: all}),
		kgo.FetchMinBytes(1), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(total / *rate + 60)*time.Second)
	defer cancel()

	epoch := time.Now()
	latency := make([]int64, total)
	got, first, done := 0, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for got < total && ctx.Err() == nil {
			fetches := consumer.PollFetches(ctx)
			now := int64(time.Since(epoch))
			fetches.EachRecord(func(r *kgo.Record) {
				number := int64(binary.BigEndian.Uint64(r.Value[8:]))
				if number < 0 {
					close(first)
					return
				}
				latency[number] = now - int64(binary.BigEndian.Uint64(r.Value))
				got++
			})
		}
	}()

	filling := make([]byte, *size)
	rand.New(rand.NewSource(1)).Read(filling)
	failed := 0
	send := func(due time.Duration, number int64) {
		value := slices.Clone(filling)
		binary.BigEndian.PutUint64(value, uint64(due))
		binary.BigEndian.PutUint64(value[8:], uint64(number))
		producer.Produce(ctx, &kgo.Record{Value: value, Partition: int32(max(number, 0) % int64(*partitions))}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed++
			}
		})
	}
	// Begins when the consumer is known to read.
	send(0, -1)
	select {
	case <-first:
	case <-ctx.Done():
		log.Fatal("the first record was not read")
	}
	start := time.Since(epoch) + 50*time.Millisecond
	for i := range total {
		due := start + time.Duration(float64(i)*1e9/float64(*rate))
		for left := due - time.Since(epoch); left > 0; left = due - time.Since(epoch) {
			time.Sleep(left)
		}
		send(due, int64(i))
	}
	sent := time.Since(epoch) - start
	producer.Flush(ctx)
	<-done

	measured := latency[*warmup:]
	slices.Sort(measured)
	at := func(part float64) float64 { return float64(measured[int(part*float64(len(measured)-1))]) / 1e6 }
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"records": got, "expected": total, "failed": failed, "rate_per_s": float64(total) / sent.Seconds(),
		"p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "p999_ms": at(0.999), "max_ms": at(1),
	})
	if got < total || failed > 0 {
		os.Exit(1)
	}
}
