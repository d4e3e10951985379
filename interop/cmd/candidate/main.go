// Command candidate takes part in a coordinated election with client-go: it
// publishes a LeaseCandidate, answers the coordinator's pings, and leads when
// the coordinator names it. Events, signals and exit codes are those of elector.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	coordination "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/incumbent-dev/incumbent/interop/internal/elect"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "candidate:", err)
		os.Exit(1)
	}
}

func run() error {
	ready := elect.Flags()
	binary := flag.String("binary-version", "1.0.0", "version of the program")
	emulation := flag.String("emulation-version", "1.0.0", "version that it behaves as")
	strategy := flag.String("strategy", string(coordination.OldestEmulationVersion), "how the coordinator is to choose")
	flag.Parse()
	settings, client, err := ready()
	if err != nil {
		return err
	}
	settings.Coordinated = true
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	// The coordinator writes the candidate's name into the lock, so name and
	// identity have to be the same.
	candidate, informers, err := leaderelection.NewCandidate(client, settings.Namespace, settings.Identity,
		settings.Lock, *binary, *emulation, coordination.CoordinatedLeaseStrategy(*strategy))
	if err != nil {
		return err
	}
	go candidate.Run(ctx)
	informers.WaitForCacheSync(ctx.Done())
	return elect.Run(ctx, client, settings)
}
