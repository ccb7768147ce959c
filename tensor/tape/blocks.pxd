"""Switching of modes. For `cimport`."""

# Let ops of this context be recorded, or not, as `answer` says: False, True or a Recorder. Also where memory
# is short.
cdef int set_recording(object answer) except -1
