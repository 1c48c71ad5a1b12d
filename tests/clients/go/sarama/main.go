// A producer of sarama: BOOTSTRAP TOPIC plain|idempotent|transactional, see package waves.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"

	"kafka-sidecar/clients/waves"
)

func main() {
	bootstrap, topic, kind := os.Args[1], os.Args[2], os.Args[3]
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Flush.Frequency = 30 * time.Millisecond
	if kind != "plain" {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	if kind == "transactional" {
		config.Producer.Transaction.ID = topic
	}
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	waves.Must(err)
	defer producer.Close()
	waves.Each(func(wave []waves.Record) ([]waves.Failure, waves.Failure) {
		if kind != "transactional" {
			return send(producer, topic, wave), waves.Failure{}
		}
		if err := producer.BeginTxn(); err != nil {
			return make([]waves.Failure, len(wave)), failure(err)
		}
		failures := send(producer, topic, wave)
		for _, one := range failures {
			if one.Name != "" {
				_ = producer.AbortTxn()
				return failures, one
			}
		}
		return failures, failure(producer.CommitTxn())
	})
}

func send(producer sarama.SyncProducer, topic string, wave []waves.Record) []waves.Failure {
	index := map[*sarama.ProducerMessage]int{}
	var messages []*sarama.ProducerMessage
	for i, one := range wave {
		message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(one.Value)}
		if one.IsGood {
			message.Key = sarama.StringEncoder("k")
			message.Headers = []sarama.RecordHeader{{Key: []byte("h"), Value: []byte("1")}}
		}
		index[message] = i
		messages = append(messages, message)
	}
	failures := make([]waves.Failure, len(wave))
	err := producer.SendMessages(messages)
	var each sarama.ProducerErrors
	if errors.As(err, &each) {
		for _, one := range each {
			failures[index[one.Msg]] = failure(one.Err)
		}
	} else {
		waves.Must(err)
	}
	return failures
}

func failure(err error) waves.Failure {
	if err == nil {
		return waves.Failure{}
	}
	var kafka sarama.KError
	if errors.As(err, &kafka) {
		return waves.Failure{Name: fmt.Sprintf("KError(%d)", int16(kafka)), Text: err.Error()}
	}
	return waves.Failure{Name: err.Error(), Text: err.Error()}
}
