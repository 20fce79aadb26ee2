package statefile

import "syscall"

const errQuota = syscall.Errno(112) // ERROR_DISK_FULL
