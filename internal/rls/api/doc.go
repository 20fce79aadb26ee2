// Package api has the messages of Envoy's rate limit service and of control planes,
// generated from rls.proto and xds.proto, and what they are in packages service and
// descriptor.
package api

//go:generate protoc -I ../../.. --go_out=../../.. --go_opt=paths=source_relative internal/rls/api/rls.proto internal/rls/api/xds.proto
