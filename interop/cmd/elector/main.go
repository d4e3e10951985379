// Command elector stands for election on one Lease with client-go, as a
// Kubernetes controller does. On SIGTERM it stops its work, releases the lock
// if told to, and exits 0; it exits 1 when it lost the lock.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/incumbent-dev/incumbent/interop/internal/elect"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "elector:", err)
		os.Exit(1)
	}
}

func run() error {
	ready := elect.Flags()
	flag.Parse()
	settings, client, err := ready()
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	return elect.Run(ctx, client, settings)
}
