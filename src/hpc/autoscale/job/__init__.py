"""The demand side: jobs, the nodes a scheduler knows, and what a cluster lacks to run the jobs."""
