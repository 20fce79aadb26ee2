//go:build linux

package netns

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// Machine is a network namespace with a cable to that of this process, which passes
// packets on between them and is reached from each.
type Machine struct {
	World
	Addr string // its address
	Here string // this process', seen from it

	cable string // the device here
}

// Host is an address of this process, beside those on the cables of [Machines].
const Host = "10.10.0.1"

// cuts drops packets from one address to another, whether they are passed on or for this
// process.
const cuts = `table ip machines {
	set cut { type ipv4_addr . ipv4_addr; }
	chain in { type filter hook prerouting priority 0; ip saddr . ip daddr @cut drop; }
}`

// Machines are n of them, until the test ends. The process must be one of [Again]. Its
// clients may have addresses of 10.128.0.0/9.
func Machines(t testkit.T, n int) []*Machine {
	t.Helper()
	lines, all := "link set lo up\naddr add "+Host+"/32 dev lo\nroute add local 10.128.0.0/9 dev lo\n", make([]*Machine, n)
	for i := range all {
		ns, err := namespace()
		if err != nil {
			t.Fatalf("netns: no namespace for a machine: %v", err)
		}
		t.Cleanup(func() { ns.Close() })
		m := &Machine{World{fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.Fd())}, fmt.Sprintf("10.9.%d.1", i), fmt.Sprintf("10.9.%d.2", i), fmt.Sprintf("m%d", i)}
		lines += fmt.Sprintf("link add %[1]s type veth peer name cable netns %s\naddr add %s/24 dev %[1]s\nlink set %[1]s up\n", m.cable, m.servers, m.Here)
		all[i] = m
	}
	batch(t, exec.Command("ip", "-batch", "-"), lines)
	for _, m := range all {
		batch(t, m.Command("ip", "-batch", "-"), fmt.Sprintf("link set lo up\naddr add %s/24 dev cable\nlink set cable up\nroute add default via %s\n", m.Addr, m.Here))
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		t.Fatalf("netns: packets between machines: %v", err)
	}
	nft(t, cuts)
	return all
}

// Cut loses what one address sends to another from now on.
func Cut(t testkit.T, from, to string) {
	t.Helper()
	nft(t, fmt.Sprintf("add element ip machines cut { %s . %s }", from, to))
}

// Join ends all cuts.
func Join(t testkit.T) {
	t.Helper()
	nft(t, "flush set ip machines cut")
}

func nft(t testkit.T, text string) {
	t.Helper()
	batch(t, exec.Command("nft", "-f", "-"), text)
}
