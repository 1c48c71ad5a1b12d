// sarama asks for a topic, and prints the name of Kafka's error: BOOTSTRAP create TOPIC PARTITIONS [CONFIG=VALUE],
// BOOTSTRAP set TOPIC CONFIG VALUE, which is AlterConfigs.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/IBM/sarama"

	"kafka-sidecar/clients/waves"
)

func main() {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	admin, err := sarama.NewClusterAdmin([]string{os.Args[1]}, config)
	waves.Must(err)
	defer admin.Close()
	name := os.Args[3]
	if os.Args[2] == "set" {
		entries := map[string]*string{os.Args[4]: &os.Args[5]}
		tell(admin.AlterConfig(sarama.TopicResource, name, entries, false))
		return
	}
	partitions, err := strconv.Atoi(os.Args[4])
	waves.Must(err)
	entries := map[string]*string{}
	for _, one := range os.Args[5:] {
		key, value, _ := strings.Cut(one, "=")
		entries[key] = &value
	}
	detail := &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: -1, ConfigEntries: entries}
	tell(admin.CreateTopic(name, detail, false))
}

func tell(err error) {
	switch {
	case err == nil:
		fmt.Println("NONE")
	case errors.Is(err, sarama.ErrPolicyViolation):
		fmt.Println("POLICY_VIOLATION")
	default:
		fmt.Println(err)
	}
}
