// Runs one collective of MPI, and says how long its last rank took: the other opinion on collectives, in SimGrid's SMPI.
//
//   smpicc -O2 smpi_peer.c -o smpi_peer
//   smpirun -platform PLATFORM -hostfile HOSTS ./smpi_peer COLLECTIVE BYTES
//
// COLLECTIVE  "allreduce", "all-gather", "all-to-all" or "reduce-scatter"
// BYTES       of the whole buffer: all that a rank has at the end of an all-gather, or at the begin of another
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv)
{
  MPI_Init(&argc, &argv);
  int n;
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  int all = atoi(argv[2]), each = all / n;
  char* in = calloc(all, 1);
  char* out = calloc(all, 1);
  int* counts = malloc(n * sizeof(int));
  for (int i = 0; i < n; i++)
    counts[i] = each;
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  if (!strcmp(argv[1], "allreduce"))
    MPI_Allreduce(in, out, all, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
  else if (!strcmp(argv[1], "all-gather"))
    MPI_Allgather(in, each, MPI_BYTE, out, each, MPI_BYTE, MPI_COMM_WORLD);
  else if (!strcmp(argv[1], "all-to-all"))
    MPI_Alltoall(in, each, MPI_BYTE, out, each, MPI_BYTE, MPI_COMM_WORLD);
  else if (!strcmp(argv[1], "reduce-scatter"))
    MPI_Reduce_scatter(in, out, counts, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
  else
    return 2;
  double mine = MPI_Wtime() - begin, last;
  MPI_Reduce(&mine, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    printf("%.15g\n", last);
  MPI_Finalize();
  return 0;
}
