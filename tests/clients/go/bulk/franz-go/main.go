// A client of franz-go that is as fast as it can: produce|consume BOOTSTRAP TOPIC CLIENT_ID RECORDS SIZE.
//
// It prints how many records have arrived, and how many have failed.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-sidecar/clients/waves"
)

func main() {
	what, topic := os.Args[1], os.Args[3]
	records, err := strconv.Atoi(os.Args[5])
	waves.Must(err)
	size, err := strconv.Atoi(os.Args[6])
	waves.Must(err)
	options := []kgo.Opt{
		kgo.SeedBrokers(os.Args[2]),
		kgo.ClientID(os.Args[4]),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}
	if what == "consume" {
		options = append(options, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	}
	client, err := kgo.NewClient(options...)
	waves.Must(err)
	defer client.Close()
	if what == "consume" {
		consume(client, records)
	} else {
		produce(client, topic, records, size)
	}
}

func produce(client *kgo.Client, topic string, records, size int) {
	var failed atomic.Int64
	for range records {
		record := &kgo.Record{Topic: topic, Value: make([]byte, size)}
		client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Add(1)
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	waves.Must(client.Flush(context.Background()))
	fmt.Println(int64(records)-failed.Load(), failed.Load())
}

func consume(client *kgo.Client, records int) {
	read, failed := 0, 0
	for read < records {
		fetches := client.PollFetches(context.Background())
		read += fetches.NumRecords()
		fetches.EachError(func(_ string, _ int32, err error) {
			failed++
			fmt.Fprintln(os.Stderr, err)
		})
	}
	fmt.Println(read, failed)
}
