// Package waves reads what a producer is to send, and prints what became of it: as tests/jvm/java/RefusedRecords.java.
//
// On stdin one record per line, "good VALUE" or "bad VALUE"; an empty line ends a wave. On stdout, separated by tabs:
// VALUE, the error's name or nothing, its text; after a wave the name of what ended its transaction, or an empty line.
package waves

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// Record is one record to send. A bad one has neither the header "h" nor a key.
type Record struct {
	Value  string
	IsGood bool
}

// Failure is the client's error for a record or a transaction; empty if there is none.
type Failure struct {
	Name string
	Text string
}

// Each calls send with every wave; send returns one Failure per record, and that of the transaction.
func Each(send func([]Record) ([]Failure, Failure)) {
	var wave []Record
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		kind, value, isRecord := strings.Cut(lines.Text(), " ")
		if isRecord {
			wave = append(wave, Record{value, kind == "good"})
			continue
		}
		failures, end := send(wave)
		for i, record := range wave {
			fmt.Printf("%s\t%s\t%s\n", record.Value, failures[i].Name, strings.ReplaceAll(failures[i].Text, "\n", " "))
		}
		fmt.Println(end.Name)
		wave = nil
	}
}

// Must ends the program with an error that has nothing to do with a record.
func Must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
