// A consumer of franz-go, see package shown.
package main

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-sidecar/clients/shown"
)

func main() {
	wanted, ctx := shown.Read()
	isolation := kgo.ReadUncommitted()
	if wanted.IsCommittedOnly {
		isolation = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(wanted.Bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{wanted.Topic: {0: kgo.NewOffset().At(0)}}),
		kgo.FetchMaxWait(wanted.MaxWait),
		kgo.FetchMaxBytes(int32(wanted.FetchBytes)),
		kgo.FetchMaxPartitionBytes(int32(wanted.FetchBytes)),
		kgo.FetchIsolationLevel(isolation),
	)
	shown.Must(err)
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		for _, one := range fetches.Errors() {
			shown.Must(one.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) { wanted.Show(record.Offset, record.Value) })
	}
}
