// A consumer of sarama, see package shown.
package main

import (
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
	if wanted.IsCommittedOnly {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
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
