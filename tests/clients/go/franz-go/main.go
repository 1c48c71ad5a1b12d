// A producer of franz-go: BOOTSTRAP TOPIC plain|idempotent|transactional [SETTING=VALUE]..., see package waves.
//
// Settings are acks, codec and client-id, with Kafka's values.
package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-sidecar/clients/waves"
)

func main() {
	bootstrap, topic, kind := os.Args[1], os.Args[2], os.Args[3]
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(30 * time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}
	switch kind {
	case "plain":
		options = append(options, kgo.DisableIdempotentWrite())
	case "transactional":
		options = append(options, kgo.TransactionalID(topic))
	}
	for _, setting := range os.Args[4:] {
		name, value, _ := strings.Cut(setting, "=")
		options = append(options, option(name, value))
	}
	client, err := kgo.NewClient(options...)
	waves.Must(err)
	defer client.Close()
	waves.Each(func(wave []waves.Record) ([]waves.Failure, waves.Failure) {
		if kind != "transactional" {
			return send(client, topic, wave), waves.Failure{}
		}
		if err := client.BeginTransaction(); err != nil {
			return make([]waves.Failure, len(wave)), failure(err)
		}
		failures := send(client, topic, wave)
		end := failed(failures)
		commit := kgo.TransactionEndTry(end == waves.Failure{})
		if err := client.EndTransaction(context.Background(), commit); err != nil && (end == waves.Failure{}) {
			end = failure(err)
		}
		return failures, end
	})
}

func option(name, value string) kgo.Opt {
	switch name {
	case "acks":
		return kgo.RequiredAcks(map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}[value])
	case "codec":
		return kgo.ProducerBatchCompression(map[string]kgo.CompressionCodec{
			"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
			"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
		}[value])
	case "client-id":
		return kgo.ClientID(value)
	}
	panic("unknown setting " + name)
}

func send(client *kgo.Client, topic string, wave []waves.Record) []waves.Failure {
	failures := make([]waves.Failure, len(wave))
	for i, one := range wave {
		record := &kgo.Record{Topic: topic, Value: []byte(one.Value)}
		if one.IsGood {
			record.Key = []byte("k")
			record.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte("1")}}
		}
		client.Produce(context.Background(), record, func(_ *kgo.Record, err error) { failures[i] = failure(err) })
	}
	waves.Must(client.Flush(context.Background()))
	return failures
}

func failed(failures []waves.Failure) waves.Failure {
	for _, one := range failures {
		if one.Name != "" {
			return one
		}
	}
	return waves.Failure{}
}

func failure(err error) waves.Failure {
	if err == nil {
		return waves.Failure{}
	}
	var kafka *kerr.Error
	if errors.As(err, &kafka) {
		return waves.Failure{Name: kafka.Message, Text: err.Error()}
	}
	return waves.Failure{Name: err.Error(), Text: err.Error()}
}
