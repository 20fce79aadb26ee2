//go:build !linux

package proc

import (
	"errors"
	"os/exec"
	"time"
)

var errLinux = errors.New("bench: processes are measured on Linux only")

func startPinned(*exec.Cmd, []int) error { return errLinux }

// PinSelf moves this process to the given cores.
func PinSelf([]int) error { return errLinux }

// Cores are the CPUs that this process may use.
func Cores() ([]int, error) { return nil, errLinux }

// PinThread does nothing here.
func PinThread(int) error { return nil }

// AvailableBytes is the memory that can be had without swapping.
func AvailableBytes() (int64, error) {
	return 0, errors.New("bench: available memory is known on Linux only: give a cap")
}

// Halt stops a process.
func Halt(int, bool) error { return errLinux }

func selfCPU() (time.Duration, error) { return 0, errLinux }

func cpu(int) (time.Duration, error) { return 0, errLinux }

func rss(int) (int64, error) { return 0, errLinux }

func children(int) []int { return nil }

// Autogroups is a setting of Linux.
func Autogroups() bool { return false }
