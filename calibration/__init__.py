"""Where things are and how they see and hear: camera intrinsics, the pose between microphone and camera, the
offset between sound and picture, the capsules, the room. Results are files with units and covariance.

Empty for now: the geometry that a rig file states by hand (yaw, pitch, position, field of view) is in
`recordings.geometry`; what is measured here will replace those numbers.
"""
