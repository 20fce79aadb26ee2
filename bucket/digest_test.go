package bucket_test

import "github.com/fastlimit/fastlimit/sketch"

func bucketDigest(pos, id uint64) sketch.Digest { return sketch.Digest{Pos: pos, ID: id} }
