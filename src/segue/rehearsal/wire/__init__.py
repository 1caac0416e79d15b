"""The four wire protocols, each as one module of pure functions.

`decode` understands a request body; `payload` and `frames` word a reply, whole or streamed; `refuse` words an
error, and `failure` the error inside a stream that began well, where the protocol has one.
"""
