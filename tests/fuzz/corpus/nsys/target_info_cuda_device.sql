create table StringIds(id,value);insert into StringIds values(1,'k<int>()'),(2,'cudaLaunchKernel_v7000');
create table TARGET_INFO_CUDA_DEVICE(gpuId,cudaId,pid);insert into TARGET_INFO_CUDA_DEVICE values (1,1,1),(2,2,2);
