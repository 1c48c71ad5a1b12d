// franz-go asks for a topic, and prints the name of Kafka's error: BOOTSTRAP create TOPIC PARTITIONS [CONFIG=VALUE],
// BOOTSTRAP set TOPIC CONFIG VALUE.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-sidecar/clients/waves"
)

func main() {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]))
	waves.Must(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if os.Args[2] == "create" {
		create(ctx, client, os.Args[3], os.Args[4], os.Args[5:])
	} else {
		set(ctx, client, os.Args[3], os.Args[4], os.Args[5])
	}
}

func create(ctx context.Context, client *kgo.Client, name, partitions string, configs []string) {
	count, err := strconv.Atoi(partitions)
	waves.Must(err)
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(count), -1
	for _, one := range configs {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		key, value, _ := strings.Cut(one, "=")
		config.Name, config.Value = key, &value
		topic.Configs = append(topic.Configs, config)
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, client)
	waves.Must(err)
	tell(response.Topics[0].ErrorCode)
}

func set(ctx context.Context, client *kgo.Client, topic, name, value string) {
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = name, &value
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	resource.Configs = append(resource.Configs, config)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(ctx, client)
	waves.Must(err)
	tell(response.Resources[0].ErrorCode)
}

func tell(code int16) {
	if code == 0 {
		fmt.Println("NONE")
	} else {
		fmt.Println(kerr.TypedErrorForCode(code).Message)
	}
}
