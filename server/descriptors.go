package server

import "log/slog"

// spareFiles are kept free for all but the connections of clients: listeners,
// the admin's connections, Redis, other nodes, logs, and connections that were
// dismissed and have not ended yet.
const spareFiles = 256

// ConnectionBytes is what a connection takes of memory at most, the garbage
// collector's headroom included: 21 KiB idle after an answer, 13 KiB in a stalled
// upload (resident memory by connections, 8,000 and 14,744 of them, Go 1.26,
// amd64; TestStalledUploadsHoldLittle). LargeHeadBytes is what heads above 4 KiB
// take beside it, all connections together.
const (
	ConnectionBytes = 24 << 10
	LargeHeadBytes  = largeMemory
)

// largeMemory bounds the buffers of the larger readers, all together.
const largeMemory = 32 << 20

// fitDescriptors lowers MaxConnections to what the limit on open files has room
// for: without descriptors nobody can be accepted, not even to end another. 0
// means no limit.
func (s *Server) fitDescriptors(files int) {
	if files == 0 {
		return
	}
	room := max(files-spareFiles, files/2, 1)
	if s.config.Connections.Max <= room {
		return
	}
	s.log.Warn("connections.max is lowered to fit the limit of open files; raise that limit (LimitNOFILE, ulimit -n)",
		slog.Int("configured", s.config.Connections.Max), slog.Int("max", room), slog.Int("open_files", files))
	s.config.Connections.Max = room
}
