package gossip

import (
	"crypto/hkdf"
	"crypto/sha256"
)

// LimiterSecret derives the secret of a limiter in a cluster. It is the same on all
// nodes, so that their digests agree. It reveals nothing about the gossip key, which
// HKDF derives from the same secret for another purpose.
func LimiterSecret(name, secret string) (key [32]byte) {
	copy(key[:], derive(name, secret, "fastlimit limiter digests v1"))
	return key
}

// gossipKey derives the AES-256 key that encrypts traffic between nodes.
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
