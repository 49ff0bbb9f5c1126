package main

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// assignment is what a group has given to a consumer, as its callbacks say.
type assignment struct {
	group string
	lock  sync.Mutex
	held  map[string]map[int32]bool
}

func newAssignment(group string) *assignment {
	return &assignment{group: group, held: map[string]map[int32]bool{}}
}

func (a *assignment) change(partitions map[string][]int32, have bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	for topic, numbers := range partitions {
		if a.held[topic] == nil {
			a.held[topic] = map[int32]bool{}
		}
		for _, number := range numbers {
			if have {
				a.held[topic][number] = true
			} else {
				delete(a.held[topic], number)
			}
		}
	}
}

func (a *assignment) shown() [][2]any {
	a.lock.Lock()
	defer a.lock.Unlock()
	found := [][2]any{}
	for topic, numbers := range a.held {
		for number := range numbers {
			found = append(found, [2]any{topic, number})
		}
	}
	return sorted(found)
}

func pair(raw json.RawMessage) (topic string, partition int32) {
	json.Unmarshal(raw, &[]any{&topic, &partition})
	return
}

func consuming(it *ask, seen *assignment) []kgo.Opt {
	wait := 500 * time.Millisecond
	if it.FetchWaitMs != 0 {
		wait = time.Duration(it.FetchWaitMs) * time.Millisecond
	}
	opts := []kgo.Opt{kgo.SeedBrokers(it.Bootstrap), kgo.FetchMaxWait(wait), kgo.FetchMaxBytes(50 << 20),
		kgo.FetchMaxPartitionBytes(20 << 20), kgo.MetadataMinAge(250 * time.Millisecond), kgo.MetadataMaxAge(time.Second)}
	if it.Isolation == "read_committed" {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	start := kgo.NewOffset().AtStart()
	if it.From == "latest" {
		start = kgo.NewOffset().AtEnd()
	}
	opts = append(opts, kgo.ConsumeResetOffset(start))
	if it.Assign != nil {
		partitions := map[string]map[int32]kgo.Offset{}
		for _, raw := range it.Assign {
			topic, number := pair(raw)
			if partitions[topic] == nil {
				partitions[topic] = map[int32]kgo.Offset{}
			}
			partitions[topic][number] = start
		}
		return append(opts, kgo.ConsumePartitions(partitions))
	}
	if it.Group != "" {
		opts = append(opts, kgo.ConsumerGroup(it.Group), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(500*time.Millisecond),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) { seen.change(given, true) }),
			kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) { seen.change(taken, false) }),
			kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { seen.change(lost, false) }))
		if it.Strategy == "cooperative" {
			opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()))
		} else {
			opts = append(opts, kgo.Balancers(kgo.RangeBalancer()))
		}
	}
	if it.Instance != "" {
		opts = append(opts, kgo.InstanceID(it.Instance))
	}
	if it.SessionMs > 0 {
		opts = append(opts, kgo.SessionTimeout(time.Duration(it.SessionMs)*time.Millisecond))
	}
	return append(opts, kgo.ConsumeTopics(it.Topics...))
}

// commit commits what was polled, and gives the error of any partition.
func commit(ctx context.Context, client *kgo.Client) error {
	var failed error
	client.CommitOffsetsSync(ctx, client.UncommittedOffsets(), func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		failed = err
		if answer == nil {
			return
		}
		for _, topic := range answer.Topics {
			for _, partition := range topic.Partitions {
				if found := kerr.ErrorForCode(partition.ErrorCode); found != nil {
					failed = found
				}
			}
		}
	})
	return failed
}

// committed asks the broker in an older version, which names topics rather than giving their ids.
func committed(ctx context.Context, group string, it *ask) (any, error) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 7)
	asking, err := kgo.NewClient(kgo.SeedBrokers(it.Bootstrap), kgo.MaxVersions(versions))
	if err != nil {
		return nil, err
	}
	defer asking.Close()
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Group = group
	for _, raw := range it.Partitions {
		topic, number := pair(raw)
		request.Topics = append(request.Topics, kmsg.OffsetFetchRequestTopic{Topic: topic, Partitions: []int32{number}})
	}
	answer, err := request.RequestWith(ctx, asking)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return nil, err
	}
	found := []int64{}
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			found = append(found, partition.Offset)
		}
	}
	return found, nil
}

// transform reads a topic in a group and writes each record to another, a transaction for each poll; aborts those named.
func transform(ctx context.Context, it *ask) (any, error) {
	it.Isolation, it.Topics = "read_committed", []string{it.Source}
	opts := append(producing(it), consuming(it, newAssignment(it.Group))...)
	session, err := kgo.NewGroupTransactSession(append(opts, kgo.RequireStableFetchOffsets())...)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	aborted := map[int]bool{}
	for _, number := range it.Abort {
		aborted[number] = true
	}
	done, transactions := 0, 0
	for done < it.Count && ctx.Err() == nil {
		fetches := session.PollRecords(ctx, 10)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return nil, err
		}
		var failed error
		fetches.EachRecord(func(r *kgo.Record) {
			made := &kgo.Record{Topic: it.Target, Partition: r.Partition, Key: r.Key, Value: r.Value}
			session.Produce(ctx, made, func(_ *kgo.Record, err error) {
				if err != nil {
					failed = err
				}
			})
		})
		if err := session.Client().Flush(ctx); err != nil {
			return nil, err
		}
		if failed != nil {
			return nil, failed
		}
		end := kgo.TryCommit
		if aborted[transactions] {
			end = kgo.TryAbort
		}
		transactions++
		committed, err := session.End(ctx, end)
		if err != nil {
			return nil, err
		}
		if committed {
			done += fetches.NumRecords()
		}
	}
	return []any{done, transactions}, nil
}
