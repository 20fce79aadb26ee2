//go:build !linux

package sketch

func adviseHugePages([]byte) {}
