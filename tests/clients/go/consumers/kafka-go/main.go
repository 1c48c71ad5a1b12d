// A consumer of kafka-go, see package shown.
package main

import (
	"github.com/segmentio/kafka-go"

	"kafka-sidecar/clients/shown"
)

// The client id has the end of the default one, which has the name of the host in front.
const clientID = "consumer (github.com/segmentio/kafka-go)"

func main() {
	wanted, ctx := shown.Read()
	isolation := kafka.ReadUncommitted
	if wanted.IsCommittedOnly {
		isolation = kafka.ReadCommitted
	}
	dialer := *kafka.DefaultDialer
	dialer.ClientID = clientID
	config := kafka.ReaderConfig{
		Brokers: []string{wanted.Bootstrap}, Topic: wanted.Topic, MinBytes: 1, MaxBytes: wanted.FetchBytes,
		MaxWait: wanted.MaxWait, IsolationLevel: isolation, Dialer: &dialer,
		GroupID: wanted.Group, StartOffset: kafka.FirstOffset,
	}
	reader := kafka.NewReader(config)
	defer reader.Close()
	if wanted.Group == "" {
		shown.Must(reader.SetOffset(0))
	}
	for {
		record, err := reader.ReadMessage(ctx)
		if ctx.Err() != nil {
			return
		}
		shown.Must(err)
		wanted.Show(record.Offset, record.Value)
	}
}
