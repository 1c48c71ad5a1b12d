// A consumer of sarama, see package shown.
package main

import (
	"context"

	"github.com/IBM/sarama"

	"kafka-sidecar/clients/shown"
)

func main() {
	wanted, ctx := shown.Read()
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Consumer.MaxWaitTime = wanted.MaxWait
	config.Consumer.Fetch.Default = int32(wanted.FetchBytes)
	config.Consumer.Return.Errors = true
	sarama.MaxResponseSize = wanted.MaxResponse()
	if wanted.IsCommittedOnly {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	if wanted.Group != "" {
		config.Consumer.Offsets.Initial = sarama.OffsetOldest
		group, err := sarama.NewConsumerGroup([]string{wanted.Bootstrap}, wanted.Group, config)
		shown.Must(err)
		for ctx.Err() == nil {
			shown.Must(group.Consume(ctx, []string{wanted.Topic}, member{wanted}))
		}
		shown.Must(group.Close())
		return
	}
	read(ctx, wanted, config)
}

// member of a group, which commits what it has shown.
type member struct{ wanted *shown.Wanted }

func (member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (one member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case record, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			one.wanted.Show(record.Offset, record.Value)
			session.MarkMessage(record, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func read(ctx context.Context, wanted *shown.Wanted, config *sarama.Config) {
	consumer, err := sarama.NewConsumer([]string{wanted.Bootstrap}, config)
	shown.Must(err)
	partition, err := consumer.ConsumePartition(wanted.Topic, 0, 0)
	shown.Must(err)
	for {
		select {
		case record := <-partition.Messages():
			wanted.Show(record.Offset, record.Value)
		case err := <-partition.Errors():
			shown.Must(err)
		case <-ctx.Done():
			return
		}
	}
}
