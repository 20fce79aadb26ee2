package gossip

import (
	"crypto/hkdf"
	"crypto/sha256"
)

// LimiterSecret is what keys the digests of a limiter whose node is in a
// cluster: the same on all nodes, so that they can compare digests. Nothing
// can be learnt from it about the key of the gossip.
func LimiterSecret(name, secret string) (key [32]byte) {
	copy(key[:], derive(name, secret, "fastlimit limiter digests v1"))
	return key
}

// gossipKey encrypts what nodes say to each other: AES-256.
func gossipKey(name, secret string) []byte {
	return derive(name, secret, "fastlimit gossip AES-256-GCM v1")
}

func derive(name, secret, use string) []byte {
	key, err := hkdf.Key(sha256.New, []byte(secret), []byte(name), use, 32)
	if err != nil {
		panic("BUG: gossip: 32 bytes of HKDF-SHA256: " + err.Error())
	}
	return key
}
