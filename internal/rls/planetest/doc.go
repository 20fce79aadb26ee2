// Package planetest tests the program "fastlimit rls" between a control plane made of
// go-control-plane, as Envoy Gateway has it, and a client of Envoy's own messages. It is a
// module of its own, so that nobody else needs what it does.
package planetest
