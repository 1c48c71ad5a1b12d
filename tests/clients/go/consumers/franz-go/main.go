// A consumer of franz-go, see package shown.
package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-sidecar/clients/shown"
)

func main() {
	wanted, ctx := shown.Read()
	isolation := kgo.ReadUncommitted()
	if wanted.IsCommittedOnly {
		isolation = kgo.ReadCommitted()
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(wanted.Bootstrap),
		kgo.FetchMaxWait(wanted.MaxWait),
		kgo.FetchMaxBytes(int32(wanted.FetchBytes)),
		kgo.FetchMaxPartitionBytes(int32(wanted.FetchBytes)),
		kgo.FetchIsolationLevel(isolation),
		kgo.BrokerMaxReadBytes(wanted.MaxResponse()),
	}
	if wanted.Group == "" {
		start := map[int32]kgo.Offset{0: kgo.NewOffset().At(0)}
		options = append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{wanted.Topic: start}))
	} else {
		options = append(options, kgo.ConsumerGroup(wanted.Group), kgo.ConsumeTopics(wanted.Topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	}
	client, err := kgo.NewClient(options...)
	shown.Must(err)
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			if wanted.Group != "" {
				shown.Must(client.CommitUncommittedOffsets(context.Background()))
			}
			return
		}
		for _, one := range fetches.Errors() {
			shown.Must(one.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) { wanted.Show(record.Offset, record.Value) })
	}
}
