// Package api has the messages of Envoy's rate limit service, generated from rls.proto, and
// what they are in package service.
package api

//go:generate protoc -I ../../.. --go_out=../../.. --go_opt=paths=source_relative internal/rls/api/rls.proto
