//go:build !unix

package config

// writable does not know here.
func writable(string) bool { return true }
