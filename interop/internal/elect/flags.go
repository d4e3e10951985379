package elect

import (
	"errors"
	"flag"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Flags registers the flags that both commands have, and returns the function
// that, after parsing, yields the settings and a client.
func Flags() func() (Settings, kubernetes.Interface, error) {
	var s Settings
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	flag.StringVar(&s.Namespace, "namespace", "default", "namespace of the lock")
	flag.StringVar(&s.Lock, "lock", "", "name of the lock")
	flag.StringVar(&s.Identity, "identity", "", "identity of this elector")
	flag.DurationVar(&s.LeaseDuration, "lease-duration", 15*time.Second, "how long the lock is held without renewal")
	flag.DurationVar(&s.RenewDeadline, "renew-deadline", 10*time.Second, "how long the leader tries to renew")
	flag.DurationVar(&s.RetryPeriod, "retry-period", 2*time.Second, "pause between tries")
	content := flag.String("content-type", "", "form of what is sent to the server; client-go's own choice if empty")
	flag.BoolVar(&s.ReleaseOnCancel, "release-on-cancel", true, "clear the holder when stopped while leading")
	return func() (Settings, kubernetes.Interface, error) {
		if s.Lock == "" || s.Identity == "" {
			return s, nil, errors.New("--lock and --identity are required")
		}
		rest, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
		if err != nil {
			return s, nil, err
		}
		rest.ContentType = *content
		client, err := kubernetes.NewForConfig(rest)
		return s, client, err
	}
}
