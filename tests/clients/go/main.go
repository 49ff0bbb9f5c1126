// The Go client (franz-go), driven by a test: a request in JSON on each line of standard input, its answer on
// standard output. ../agents.py says what is asked. Texts are bytes as ISO 8859-1.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type header [2]*string

type record struct {
	Partition int32    `json:"partition"`
	Timestamp *int64   `json:"timestamp"`
	Key       *string  `json:"key"`
	Value     *string  `json:"value"`
	Headers   []header `json:"headers"`
}

type ask struct {
	Op              string            `json:"op"`
	ID              string            `json:"id"`
	Bootstrap       string            `json:"bootstrap"`
	Topic           string            `json:"topic"`
	Records         []record          `json:"records"`
	Acks            string            `json:"acks"`
	Codec           string            `json:"codec"`
	Idempotent      *bool             `json:"idempotent"`
	TransactionalID string            `json:"transactional_id"`
	TransactionMs   int               `json:"transaction_timeout_ms"`
	LingerMs        int               `json:"linger_ms"`
	DeliveryMs      int               `json:"delivery_timeout_ms"`
	RequestMs       int               `json:"request_timeout_ms"`
	Group           string            `json:"group"`
	Instance        string            `json:"instance"`
	SessionMs       int               `json:"session_ms"`
	Isolation       string            `json:"isolation"`
	FetchWaitMs     int               `json:"fetch_wait_ms"`
	Strategy        string            `json:"strategy"`
	Topics          []string          `json:"topics"`
	Assign          []json.RawMessage `json:"assign"`
	Partitions      []json.RawMessage `json:"partitions"`
	From            string            `json:"from"`
	Count           int               `json:"count"`
	Ms              int               `json:"ms"`
	Wait            *bool             `json:"wait"`
	Source          string            `json:"source"`
	Target          string            `json:"target"`
	Abort           []int             `json:"abort"`
}

var (
	clients  = map[string]*kgo.Client{}
	assigned = map[string]*assignment{}
)

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var it ask
		if err := json.Unmarshal(line, &it); err != nil {
			out.Encode(failure(err))
			continue
		}
		ok, err := handle(&it)
		if err != nil {
			out.Encode(failure(err))
		} else {
			out.Encode(map[string]any{"ok": ok})
		}
	}
}

func failure(err error) map[string]any {
	code := int16(-1)
	var known *kerr.Error
	if errors.As(err, &known) {
		code = known.Code
	}
	return map[string]any{"error": fmt.Sprintf("%T", err), "code": code, "message": err.Error()}
}

func handle(it *ask) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client := clients[it.ID]
	switch it.Op {
	case "producer":
		made, err := kgo.NewClient(producing(it)...)
		clients[it.ID] = made
		return nil, err
	case "init":
		_, _, err := client.ProducerID(ctx)
		return nil, err
	case "begin":
		return nil, client.BeginTransaction()
	case "commit_txn":
		return nil, client.EndTransaction(ctx, kgo.TryCommit)
	case "abort_txn":
		if err := client.AbortBufferedRecords(ctx); err != nil {
			return nil, err
		}
		return nil, client.EndTransaction(ctx, kgo.TryAbort)
	case "send":
		if it.Wait != nil && !*it.Wait {
			// It is on its way when this request has long been answered.
			ctx = context.Background()
		}
		return send(ctx, client, it), nil
	case "consumer":
		seen := newAssignment(it.Group)
		made, err := kgo.NewClient(consuming(it, seen)...)
		clients[it.ID], assigned[it.ID] = made, seen
		if err == nil && it.Assign != nil && it.From == "latest" {
			// Until the ends are known nothing may be produced: a poll looks them up.
			soon, done := context.WithTimeout(ctx, time.Second)
			made.PollFetches(soon)
			done()
		}
		return nil, err
	case "poll":
		return poll(client, it)
	case "assignment":
		return assigned[it.ID].shown(), nil
	case "commit":
		return nil, commit(ctx, client)
	case "committed":
		return committed(ctx, assigned[it.ID].group, it)
	case "close_producer":
		client.Close()
		return nil, nil
	case "close_consumer":
		if it.Instance == "" {
			client.LeaveGroup()
		}
		client.Close()
		return nil, nil
	case "transform":
		return transform(ctx, it)
	case "versions":
		return versions(), nil
	}
	return nil, fmt.Errorf("no such request: %s", it.Op)
}

func versions() map[string]string {
	found := map[string]string{}
	if built, ok := debug.ReadBuildInfo(); ok {
		for _, it := range built.Deps {
			found[it.Path] = it.Version
		}
	}
	return found
}

func producing(it *ask) []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(it.Bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(20 << 20),
		kgo.AllowAutoTopicCreation(), kgo.BrokerMaxWriteBytes(100 << 20)}
	codecs := map[string]kgo.CompressionCodec{"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	if codec, ok := codecs[it.Codec]; ok {
		opts = append(opts, kgo.ProducerBatchCompression(codec))
	} else {
		opts = append(opts, kgo.ProducerBatchCompression(kgo.NoCompression()))
	}
	switch it.Acks {
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	default:
		if it.Idempotent != nil && !*it.Idempotent {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
	}
	if it.TransactionalID != "" {
		opts = append(opts, kgo.TransactionalID(it.TransactionalID))
	}
	if it.TransactionMs > 0 {
		opts = append(opts, kgo.TransactionTimeout(time.Duration(it.TransactionMs)*time.Millisecond))
	}
	if it.LingerMs > 0 {
		opts = append(opts, kgo.ProducerLinger(time.Duration(it.LingerMs)*time.Millisecond))
	}
	if it.DeliveryMs > 0 {
		opts = append(opts, kgo.RecordDeliveryTimeout(time.Duration(it.DeliveryMs)*time.Millisecond))
	}
	if it.RequestMs > 0 {
		opts = append(opts, kgo.ProduceRequestTimeout(time.Duration(it.RequestMs)*time.Millisecond), kgo.RequestTimeoutOverhead(time.Second))
	}
	return opts
}

func send(ctx context.Context, client *kgo.Client, it *ask) any {
	found := make([]any, len(it.Records))
	for i, from := range it.Records {
		made := &kgo.Record{Topic: it.Topic, Partition: from.Partition, Key: bytes(from.Key), Value: bytes(from.Value)}
		if from.Timestamp != nil {
			made.Timestamp = time.UnixMilli(*from.Timestamp)
		}
		for _, h := range from.Headers {
			made.Headers = append(made.Headers, kgo.RecordHeader{Key: *h[0], Value: bytes(h[1])})
		}
		client.Produce(ctx, made, func(r *kgo.Record, err error) {
			if err != nil {
				found[i] = failure(err)
			} else {
				found[i] = []any{r.Partition, r.Offset, r.Timestamp.UnixMilli()}
			}
		})
	}
	if it.Wait != nil && !*it.Wait {
		return nil
	}
	client.Flush(ctx)
	return found
}

func poll(client *kgo.Client, it *ask) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(it.Ms)*time.Millisecond)
	defer cancel()
	found := []any{}
	for {
		fetches := client.PollFetches(ctx)
		for _, err := range fetches.Errors() {
			// What is no answer of the broker passes by itself: the client dials and joins again.
			var known *kerr.Error
			if errors.As(err.Err, &known) && !known.Retriable && known.Code != kerr.RebalanceInProgress.Code && known.Code != kerr.UnknownMemberID.Code {
				return nil, err.Err
			}
		}
		fetches.EachRecord(func(r *kgo.Record) {
			headers := [][2]any{}
			for _, h := range r.Headers {
				headers = append(headers, [2]any{h.Key, latin(h.Value)})
			}
			found = append(found, []any{r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli(), latin(r.Key), latin(r.Value), headers})
		})
		if len(found) >= it.Count || ctx.Err() != nil {
			return found, nil
		}
	}
}

func bytes(text *string) []byte {
	if text == nil {
		return nil
	}
	found := make([]byte, 0, len(*text))
	for _, r := range *text {
		found = append(found, byte(r))
	}
	return found
}

func latin(it []byte) any {
	if it == nil {
		return nil
	}
	runes := make([]rune, len(it))
	for i, b := range it {
		runes[i] = rune(b)
	}
	return string(runes)
}

func sorted(pairs [][2]any) [][2]any {
	sort.Slice(pairs, func(i, j int) bool { return fmt.Sprint(pairs[i]) < fmt.Sprint(pairs[j]) })
	return pairs
}
