// A schema registry that this project did not write, at the address in its argument: franz-go's srfake.
package main

import (
	"log"
	"net/http"
	"os"

	"github.com/twmb/franz-go/pkg/sr/srfake"
)

func main() {
	registry := srfake.New()
	defer registry.Close()
	log.Fatal(http.ListenAndServe(os.Args[1], registry.Handler()))
}
