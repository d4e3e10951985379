// Package elect runs one client-go elector the way a Kubernetes component
// does, and tells on standard output, one JSON line for each event, what
// happens to it:
//
//	running  it stands for election
//	leader   it sees that identity lead
//	started  its own work begins
//	stopped  its own work has ended
//	ended    the elector has returned, after the release if there was one
package elect

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Settings are the parts of an election that the commands let a caller choose.
type Settings struct {
	Namespace, Lock, Identity                 string
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	ReleaseOnCancel, Coordinated              bool
}

// Run stands for election until ctx ends or the lock, once held, is lost.
// It returns after the work has ended.
func Run(ctx context.Context, client kubernetes.Interface, s Settings) error {
	// Whoever takes it last keeps it: work that has begun is waited for, and
	// work that client-go starts after the elector has returned never begins.
	var work sync.Mutex
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: s.Lock,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Lock},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: s.Identity},
		},
		LeaseDuration:   s.LeaseDuration,
		RenewDeadline:   s.RenewDeadline,
		RetryPeriod:     s.RetryPeriod,
		ReleaseOnCancel: s.ReleaseOnCancel,
		Coordinated:     s.Coordinated,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(term context.Context) {
				work.Lock()
				defer work.Unlock()
				report("started", s.Identity)
				<-term.Done()
				report("stopped", s.Identity)
			},
			// Called for electors that never led, too: the work itself reports.
			OnStoppedLeading: func() {},
			OnNewLeader:      func(leader string) { report("leader", leader) },
		},
	})
	if err != nil {
		return err
	}
	report("running", s.Identity)
	elector.Run(ctx)
	work.Lock()
	report("ended", s.Identity)
	if ctx.Err() == nil {
		return fmt.Errorf("lock %s/%s was lost", s.Namespace, s.Lock)
	}
	return nil
}

var stdout sync.Mutex

// report takes the time under the lock, so that lines are in the order of
// their times.
func report(event, identity string) {
	stdout.Lock()
	defer stdout.Unlock()
	// Encoding errors are those of a closed pipe: the reader has gone.
	_ = json.NewEncoder(os.Stdout).Encode(struct {
		Event     string `json:"event"`
		Identity  string `json:"identity"`
		UnixNanos int64  `json:"unixNanos"`
	}{event, identity, time.Now().UnixNano()})
}
