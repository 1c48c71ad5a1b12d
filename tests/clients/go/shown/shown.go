// Package shown prints the records that a consumer of one partition gets, as its application sees them.
//
// Arguments: BOOTSTRAP TOPIC COUNT MAX_WAIT_MS FETCH_BYTES ISOLATION [GROUP]. With GROUP it is a member of that group,
// begins where the group has committed, and has committed what it got when it ends. On stdout one line for each record, separated by
// tabs: offset, length and CRC-32 of the value. A consumer ends a second after it has got COUNT records, so that it
// also prints what comes in addition, or after two minutes.
package shown

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"time"
)

const (
	limit = 2 * time.Minute
	extra = time.Second

	maxResponse = 100 << 20
)

// Wanted is what a consumer has to read.
type Wanted struct {
	Bootstrap, Topic string
	MaxWait          time.Duration
	FetchBytes       int
	IsCommittedOnly  bool
	Group            string // empty: it reads partition 0 from its start
	left             int
	end              context.CancelFunc
}

// Read returns what the arguments say; the context is done when enough has been read.
func Read() (*Wanted, context.Context) {
	ctx, end := context.WithTimeout(context.Background(), limit)
	wanted := &Wanted{
		Bootstrap: os.Args[1], Topic: os.Args[2], left: number(3), MaxWait: time.Duration(number(4)) * time.Millisecond,
		FetchBytes: number(5), IsCommittedOnly: os.Args[6] == "read_committed", end: end,
	}
	if len(os.Args) > 7 {
		wanted.Group = os.Args[7]
	}
	return wanted, ctx
}

// MaxResponse returns the default of clients that limit a response, or twice the bytes of a fetch.
func (wanted *Wanted) MaxResponse() int32 {
	return int32(max(maxResponse, 2*wanted.FetchBytes))
}

// Show prints one record.
func (wanted *Wanted) Show(offset int64, value []byte) {
	fmt.Printf("%d\t%d\t%d\n", offset, len(value), crc32.ChecksumIEEE(value))
	wanted.left--
	if wanted.left == 0 {
		time.AfterFunc(extra, wanted.end)
	}
}

// Must ends the program if there is an error.
func Must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(argument int) int {
	found, err := strconv.Atoi(os.Args[argument])
	Must(err)
	return found
}
