//go:build race

package upstream

const racing = true
