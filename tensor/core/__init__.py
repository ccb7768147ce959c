"""The core of tensors: storages with copy-on-write, views, handles, donation, bfloat16, checks of sizes."""
