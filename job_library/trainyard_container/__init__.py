"""What runs in each container of a SageMaker training job, where no agent of ours can be: it brings
a run's files, starts the launcher, and keeps and reports what the run makes.

It needs the standard library and boto3, which AWS's images have.
"""
