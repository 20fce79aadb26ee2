//go:build unix

package statefile

import "syscall"

const errQuota = syscall.EDQUOT
